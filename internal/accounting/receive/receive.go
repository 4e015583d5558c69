// Package receive is the HTTP server of finished jobs: it takes documents from Slurm's
// jobcomp/elasticsearch plugin and from Elasticsearch's clients, and has room for other handlers.
package receive

import (
	"net/http"
	"strings"
)

// Pages is the beginning of the paths of pages for people. No index can have a name that begins
// with an underscore, so no path of the API has it.
const Pages = "/_ui/"

// Handlers are the handlers of a server. API has those of Elasticsearch's API, such as
// "POST /{index}/_doc"; Pages has those below [Pages]. They are separate because patterns of both
// would overlap in one multiplexer.
type Handlers struct {
	API   *http.ServeMux
	Pages *http.ServeMux
}

// NewHandlers returns handlers without any path.
func NewHandlers() *Handlers { return &Handlers{API: http.NewServeMux(), Pages: http.NewServeMux()} }

// ServeHTTP passes a request on. A browser that asks for the root is led to the pages.
func (h *Handlers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasPrefix(r.URL.Path, Pages):
		h.Pages.ServeHTTP(w, r)
	case r.URL.Path == "/" && r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html"):
		http.Redirect(w, r, Pages, http.StatusFound)
	default:
		h.API.ServeHTTP(w, r)
	}
}
