package dashboard

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/internal/guard"
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

// gate says who may see and do what, and has it in the log.
type gate struct {
	cfg    Config
	origin *http.CrossOriginProtection
}

// knows reports whether a request asks by a name that it may. Without names it is any, but over an
// address that only this machine reaches.
func (g *gate) knows(r *http.Request) bool {
	host := hostOf(r)
	if len(g.cfg.Hosts) > 0 {
		return slices.ContainsFunc(g.cfg.Hosts, func(known string) bool {
			return known == "*" || strings.EqualFold(strings.Trim(known, "[]"), host)
		})
	}
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok || !addr.IP.IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil // no name was looked up, so none was forged
}

// foreign returns an error for what a browser sends for a page of another site: also for
// a GET, because an answer that nobody reads is work, too. People may follow a link.
func (g *gate) foreign(r *http.Request) error {
	if r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" {
		return nil
	}
	strict := *r
	strict.Method = http.MethodPost // a GET of any origin is safe to the check
	return g.origin.Check(&strict)
}

// verdicts are what the authorizer has said to a request. It is asked about each action
// once, and for no longer altogether than a page has.
type verdicts struct {
	given map[Action]error
	left  time.Duration // that it may take for the rest
}

type verdictsKey struct{}

// may asks whether a request may do something.
func (g *gate) may(r *http.Request, a Action) error {
	v := r.Context().Value(verdictsKey{}).(*verdicts)
	if err, known := v.given[a]; known {
		return err
	}
	if v.left <= 0 {
		return errUnsaid
	}
	if len(v.given) > 0 && r.Context().Err() != nil { // the time went elsewhere
		return problemOf(context.DeadlineExceeded)
	}
	ctx, cancel := context.WithTimeout(r.Context(), v.left)
	defer cancel()
	began, err := time.Now(), error(nil)
	survived := g.survives("the authorizer of the dashboard", func() { err = g.cfg.Authorize(r.WithContext(ctx), a) })
	v.left -= time.Since(began)
	switch {
	case !survived:
		err = problem{http.StatusForbidden, "whether this is allowed is not known: the authorizer failed"}
	case ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded):
		err = errUnsaid
	case err != nil:
		err = problem{http.StatusForbidden, begin(err.Error(), mostError)}
	}
	v.given[a] = err
	return err
}

// permit asks whether a request may have something done, and may look at it.
func (g *gate) permit(r *http.Request, o *order) error {
	err := g.may(r, Action{Verb: View, Queue: o.Queue})
	if err == nil {
		err = g.may(r, Action{Verb: o.Verb, Queue: o.Queue, Name: o.Name})
	}
	if err != nil {
		g.record(r, o, "dashboard: an action was refused", slog.Attr{}, err)
	}
	return err
}

// seen are those of a list that are of a queue at which a request may look. Where that
// was not said there is no list: a part of it would look like all.
func seen[E any](g *gate, r *http.Request, list []E, queue func(E) string) (some []E, err error) {
	for _, e := range list {
		switch err := g.may(r, Action{Verb: View, Queue: queue(e)}); {
		case err == nil:
			some = append(some, e)
		case unsaid(err):
			return nil, err
		}
	}
	return some, nil
}

// unsaid reports whether an error of may is neither a yes nor a no.
func unsaid(err error) bool { return err != nil && problemOf(err).status != http.StatusForbidden }

var errUnsaid = problem{http.StatusServiceUnavailable,
	"whether this is allowed was not said within Config.PageTimeout: the authorizer is slow"}

// survives reports whether what the program says does not panic, and has it in the log if it does.
func (g *gate) survives(what string, do func()) bool {
	err := guard.Call(func() error { do(); return nil })
	if p, panicked := errors.AsType[*executor.PanicError](err); panicked {
		g.cfg.Logger.Error(what+" panicked", slog.Any("panic", p.Value), slog.String("stack", p.Stack))
	}
	return err == nil
}

// can says which verbs a request may use on a queue.
func (g *gate) can(r *http.Request, queue string, verbs ...Verb) (map[Verb]bool, error) {
	can := make(map[Verb]bool, len(verbs))
	for _, v := range verbs {
		err := g.may(r, Action{Verb: v, Queue: queue})
		if unsaid(err) {
			return nil, err
		}
		can[v] = err == nil
	}
	return can, nil
}

// record has an action in the log: all that it was asked with, by whom, and what came of
// it. What is not there is left out.
func (g *gate) record(r *http.Request, o *order, text string, affected slog.Attr, err error) {
	line := []slog.Attr{slog.String("verb", string(o.Verb))}
	said := func(attrs ...slog.Attr) {
		line = append(line, slices.DeleteFunc(attrs, func(a slog.Attr) bool { return a.Value.String() == "" })...)
	}
	said(slog.String("scope", o.said("scope")), slog.String("queue", o.said("queue")), slog.String("id", o.said("id")))
	if o.said("selected") != "" {
		line = append(line, slog.Int("selected", len(o.Picks)))
	}
	if len(o.states) > 0 {
		line = append(line, slog.Any("states", o.states))
	}
	said(slog.String("prefix", o.said("prefix")), slog.String("containing", o.said("error")), slog.String("reason", o.said("reason")),
		slog.String("key", o.said("key")), slog.String("cron", o.said("cron")), slog.String("schedule", o.said("schedule")))
	line = append(line, affected, slog.String("from", r.RemoteAddr))
	if g.cfg.User != nil {
		g.survives("User of the dashboard", func() { said(slog.String("user", g.cfg.User(r))) })
	}
	level := slog.LevelInfo
	if err != nil {
		level = slog.LevelWarn
		line = append(line, slog.Any("error", err))
	}
	g.cfg.Logger.LogAttrs(r.Context(), level, text, line...)
}
