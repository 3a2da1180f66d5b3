package dashboard

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// policy lets a page load what the dashboard itself serves, and nothing else: no
// inline script or style, no frame, no form to elsewhere.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// secure sets what each answer has.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	// Not no-referrer: a browser that sends no Sec-Fetch-Site, over plain HTTP, would
	// send a null Origin with it, and its own pages' forms would be refused.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// hostOf is the name by which a request asks, without its port.
func hostOf(r *http.Request) string {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.Trim(strings.ToLower(strings.TrimSuffix(host, ".")), "[]")
}

// knows reports whether a request asks by a name that it may.
func (h *handler) knows(r *http.Request) bool {
	host := hostOf(r)
	if len(h.cfg.Hosts) > 0 {
		return slices.ContainsFunc(h.cfg.Hosts, func(known string) bool {
			return known == "*" || strings.EqualFold(strings.Trim(known, "[]"), host)
		})
	}
	if !onLoopback(r) || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil // no name was looked up, so none was forged
}

// foreign returns an error for what a browser sends for a page of another site: also for
// a GET, because an answer that nobody reads is work, too. People may follow a link.
func (h *handler) foreign(r *http.Request) error {
	if r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
		r.Header.Get("Sec-Fetch-Dest") == "document" {
		return nil
	}
	strict := *r
	strict.Method = http.MethodPost // a GET of any origin is safe to the check
	return h.origin.Check(&strict)
}

// onLoopback reports whether a request came in over an address that only this machine
// reaches. Where that is not known, it did not.
func onLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}
