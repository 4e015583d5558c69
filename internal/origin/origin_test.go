package origin

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
)

// browser are the headers that a browser sends with a request: site, mode and destination.
func browser(site, mode, dest string) []string {
	return []string{"Sec-Fetch-Site", site, "Sec-Fetch-Mode", mode, "Sec-Fetch-Dest", dest}
}

func TestAdmit(t *testing.T) {
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	const here, evil = "127.0.0.1:9200", "evil.example:9200"
	link, asks := browser("cross-site", "navigate", "document"), slices.Clip(browser("same-origin", "cors", "empty"))
	for _, c := range []struct {
		name, method, host, path string
		headers                  []string
		want                     bool
	}{
		{"curl", "GET", here, "/_search", nil, true},
		{"curl, localhost", "GET", "localhost:9200", "/_search", nil, true},
		{"curl, a name below localhost", "GET", "a.localhost", "/_search", nil, true},
		{"curl, IPv6", "GET", "[::1]:9200", "/_search", nil, true},
		{"curl, IPv6 without a port", "GET", "[::1]", "/_search", nil, true},
		{"curl, the machine's name", "GET", strings.ToUpper(own), "/_search", nil, true},
		{"curl sends", "POST", here, "/doc", nil, true},
		{"Slurm's plugin, by a name of /etc/hosts", "POST", "accounting:9200", "/doc", nil, true},

		{"own page asks", "GET", here, "/_search", asks, true},
		{"own page sends", "PUT", here, "/doc", append(asks, "Origin", "http://"+here), true},
		{"own page behind a proxy that changes the host", "PUT", here, "/doc", append(asks, "Origin", "https://a.example"), true},
		{"own page, an old browser", "POST", "localhost:9200", "/doc", []string{"Origin", "http://LOCALHOST:9200"}, true},
		{"the user types the address", "GET", here, "/_search", browser("none", "navigate", "document"), true},
		{"an extension sends", "POST", here, "/doc", browser("none", "cors", "empty"), false},

		{"a link to a page", "GET", here, "/page", link, true},
		{"a link to a page, of a site beside", "GET", here, "/page", browser("same-site", "navigate", "document"), true},
		{"a link to a page, HEAD", "HEAD", here, "/page", link, true},
		{"a link to the API", "GET", here, "/_search", link, false},
		{"a form", "POST", here, "/page", link, false},
		{"a frame", "GET", here, "/page", browser("cross-site", "navigate", "iframe"), false},
		{"an old frame", "GET", here, "/page", browser("cross-site", "navigate", "frame"), false},
		{"an object", "GET", here, "/page", browser("cross-site", "navigate", "object"), false},
		{"an image", "GET", here, "/page", browser("cross-site", "no-cors", "image"), false},
		{"a script", "GET", here, "/_search", browser("cross-site", "no-cors", "script"), false},
		{"a fetch", "GET", here, "/page", browser("same-site", "no-cors", "empty"), false},
		{"a fetch that sends", "POST", here, "/doc", browser("cross-site", "no-cors", "empty"), false},
		{"asking whether a fetch may send", "OPTIONS", here, "/doc", browser("cross-site", "cors", "empty"), false},
		{"a browser of the future", "GET", here, "/page", browser("other", "no-cors", "empty"), false},
		{"an old browser", "POST", here, "/doc", []string{"Origin", "http://evil.example"}, false},
		{"an old browser, a sandbox", "POST", here, "/doc", []string{"Origin", "null"}, false},
		{"an old browser, another port", "POST", here, "/doc", []string{"Origin", "http://127.0.0.1:80"}, false},

		{"rebinding", "GET", evil, "/_search", nil, false},
		{"rebinding, a page", "GET", evil, "/page", browser("none", "navigate", "document"), false},
		{"rebinding, the page asks", "GET", evil, "/_search", browser("same-origin", "cors", "empty"), false},
		{"rebinding, the page sends", "POST", evil, "/doc", []string{"Origin", "http://" + evil}, false},
		{"rebinding, the page sends by https", "POST", evil, "/doc", browser("same-origin", "cors", "empty"), false},
		{"a name that begins as localhost", "GET", "localhost.evil.example", "/_search", nil, false},
		{"a name that ends as localhost", "GET", "evillocalhost", "/_search", nil, false},
		{"without a host", "GET", "", "/_search", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := Policy{Page: func(r *http.Request) bool { return r.URL.Path == "/page" }}
			w, r := httptest.NewRecorder(), httptest.NewRequest(c.method, c.path, nil)
			r.Host = c.host
			for i := 0; i < len(c.headers); i += 2 {
				r.Header.Set(c.headers[i], c.headers[i+1])
			}
			err := p.Admit(w, r)
			if (err == nil) != c.want || err != nil && !strings.Contains(err.Error(), "(want ") {
				t.Errorf("%s %s of %s, %q: %v", c.method, c.path, c.host, c.headers, err)
			}
			policy := w.Header().Get("Content-Security-Policy")
			if w.Header().Get("X-Frame-Options") != "DENY" || !strings.Contains(policy, "frame-ancestors 'none'") {
				t.Errorf("headers %v", w.Header())
			}
		})
	}
}

// TestNames: a server that wants a secret, or that the network reaches, answers to any name.
func TestNames(t *testing.T) {
	local := func(a net.Addr) *http.Request {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = "accounting.example"
		return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, a))
	}
	loopback, network := &net.TCPAddr{IP: net.IPv6loopback}, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}
	for _, c := range []struct {
		policy Policy
		local  net.Addr
		want   bool
	}{
		{Policy{}, loopback, false},
		{Policy{Secret: true}, loopback, true},
		{Policy{}, network, true},
		{Policy{}, &net.UnixAddr{}, true},
	} {
		if err := c.policy.Admit(httptest.NewRecorder(), local(c.local)); (err == nil) != c.want {
			t.Errorf("%+v, %v: %v", c.policy, c.local, err)
		}
	}
	link := httptest.NewRequest("GET", "/", nil)
	link.Host = "localhost"
	for i, h := 0, browser("cross-site", "navigate", "document"); i < len(h); i += 2 {
		link.Header.Set(h[i], h[i+1])
	}
	if (Policy{}).Admit(httptest.NewRecorder(), link) == nil {
		t.Error("a server without pages can be linked to")
	}
	r := local(loopback)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if (Policy{Secret: true}).Admit(httptest.NewRecorder(), r) == nil {
		t.Error("a secret lets pages of other sites ask")
	}
}
