// Package origin decides which requests are accepted by a server that listens on this machine.
// Requests of programs and of the server's own pages are accepted, but not requests of the web
// pages of other sites. For any page, a browser sends requests to any address that it reaches,
// including the loopback interface, and adds the passwords that it has stored.
//
// The check reads the headers in which browsers describe their requests: Fetch Metadata (W3C,
// https://www.w3.org/TR/fetch-metadata/), Origin (RFC 6454) and Host. Programs send neither Fetch Metadata nor Origin,
// so the check refuses a program's request only if its method is GET or HEAD and its Host is a name that another site
// may have.
package origin

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
)

// Policy describes a server to the check. Its zero value is for a server without passwords and pages.
type Policy struct {
	// Secret says that the server requires a password or a token. With such a secret, the name by which a browser reaches
	// the server does not matter, because a page of another name does not know the secret.
	Secret bool
	// Page reports whether a request is for a page for people. Other sites may link to pages, and to nothing else. Page is
	// nil for a server without pages.
	Page func(*http.Request) bool
}

// errForeign is the error of a request that a page of another site caused.
var errForeign = errors.New("the request comes from a web page of another site (want it from a program, " +
	"from the server's own pages, or from a link to a page)")

// Admit returns an error unless the request comes from a program, from the server's own pages, or from
// a link to one of these pages. On an error, the caller must answer with the status 403. Admit also
// sets the headers that prevent other sites from showing the answer in their frames and documents.
func (p Policy) Admit(w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	h.Set("X-Frame-Options", "DENY")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	if p.foreign(r) {
		return errForeign
	}
	if !p.Secret && rebound(r) {
		return fmt.Errorf("host %q is not a name of this machine (want localhost, an address, or the machine's own name; "+
			"a server with a password or token answers to every name)", r.Host)
	}
	return nil
}

// foreign reports whether a page of another site caused the request.
func (p Policy) foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "": // a program, an old browser, or a browser that uses http with another host than this machine
		origin := r.Header.Get("Origin")
		return origin != "" && !sameHost(origin, r.Host)
	case "same-origin":
		return false
	case "none": // the user typed the address
		return !reads(r)
	}
	link := reads(r) && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
	return !link || p.Page == nil || !p.Page(r)
}

// reads reports whether the request's method changes nothing.
func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

func sameHost(origin, host string) bool {
	_, after, ok := strings.Cut(origin, "://")
	return ok && strings.EqualFold(after, host)
}

// rebound reports whether a browser may have reached an address of this machine by the name of another site (DNS
// rebinding). To the browser, a server under the other site's name and the pages of the other site have the same
// origin. Browsers send Origin with all methods except GET and HEAD. Slurm's plugin jobcomp/elasticsearch sends no
// Origin, so its POST requests may name any host. On an address that other machines reach, a server without a secret is
// open to the whole network in any case.
func rebound(r *http.Request) bool {
	if local, known := r.Context().Value(http.LocalAddrContextKey).(net.Addr); known {
		if tcp, ok := local.(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
			return false
		}
	}
	browser := r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != ""
	return (reads(r) || browser) && !ownName(r.Host)
}

// ownName reports whether a request's host is a name or an address that no other site can have.
func ownName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if net.ParseIP(host) != nil || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	own, err := os.Hostname()
	own = strings.ToLower(own)
	short, _, _ := strings.Cut(own, ".")
	return err == nil && host != "" && (host == own || host == short)
}
