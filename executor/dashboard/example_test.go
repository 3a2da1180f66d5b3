package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/dashboard"
)

// role is what somebody may do, under a key of the request's context.
type role string

const (
	viewer   role = "viewer"
	operator role = "operator"
)

// withSession finds who asks by the cookie of a session, and renews it. Who has none
// does not come as far as the dashboard.
func withSession(sessions map[string]role, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookie, err := r.Cookie("session")
		if err != nil || sessions[cookie.Value] == "" {
			http.Error(w, "log in first", http.StatusUnauthorized)
			return
		}
		http.SetCookie(w, &http.Cookie{
			Name: "session", Value: cookie.Value, Path: "/", MaxAge: 3600,
			HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
		})
		counted := &countingWriter{ResponseWriter: w}
		next.ServeHTTP(counted, r.WithContext(context.WithValue(r.Context(), role(""), sessions[cookie.Value])))
	})
}

// countingWriter stands for what middlewares put around an answer.
type countingWriter struct {
	http.ResponseWriter
	bytes int
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.bytes += n
	return n, err
}

// Unwrap lets http.ResponseController find Flush and deadlines: without it no figures
// are live.
func (w *countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// may lets viewers look, and operators do all but what can't be taken back.
func may(r *http.Request, a dashboard.Action) error {
	switch who, _ := r.Context().Value(role("")).(role); {
	case a.Verb == dashboard.View:
		return nil // whoever has come through withSession
	case who != operator:
		return errors.New("only operators may")
	case strings.HasPrefix(string(a.Verb), "delete"), a.Verb == dashboard.CopyJournal:
		return fmt.Errorf("%s is not for the dashboard", a.Verb)
	}
	return nil
}

// payment is what a job is about.
type payment struct {
	Order string
	Cents int
	Card  string
}

// withoutCards shows payments but for the numbers of cards, and nothing else.
func withoutCards(_ *http.Request, p dashboard.Payload) string {
	if payment, ok := p.Value.(payment); ok {
		return fmt.Sprintf("order %s, %d cents", payment.Order, payment.Cents)
	}
	return ""
}

// Roles, payloads without what is secret in them, and a middleware with sessions.
func Example() {
	x, err := executor.Open("", executor.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	payments, err := executor.Handle(x, "payments", func(context.Context, executor.Job[payment]) error { return nil },
		executor.QueueConfig[payment]{})
	if err == nil {
		secret := payment{Order: "7", Cents: 1200, Card: "4111 1111"}
		_, err = payments.Enqueue(ctx, "order-7", secret, executor.In(time.Hour))
	}
	if err == nil {
		err = x.Start(ctx)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	pages := dashboard.Handler(x, dashboard.Config{
		Authorize: may, ShowPayload: withoutCards, Logger: slog.New(slog.DiscardHandler),
	})
	mux.Handle("/strand/", withSession(map[string]role{"v": viewer, "o": operator}, pages))
	server := httptest.NewServer(mux)
	ask := func(session, method, path, body string) {
		r, err := http.NewRequest(method, server.URL+"/strand/"+path, strings.NewReader(body))
		if err != nil {
			fmt.Println(err)
			return
		}
		r.Header.Set("Content-Type", "application/json")
		r.AddCookie(&http.Cookie{Name: "session", Value: session})
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		fmt.Printf("%s: %s, order shown: %t, card shown: %t\n", session, answer.Status,
			strings.Contains(string(text), "order 7, 1200 cents"), strings.Contains(string(text), "4111"))
	}
	const job, pause = "job?queue=payments&id=order-7", `{"verb": "pause", "queue": "payments", "scope": "all"}`
	ask("nobody", http.MethodGet, job, "")
	ask("v", http.MethodGet, job, "")
	ask("v", http.MethodPost, "api/v1/actions", pause)
	ask("o", http.MethodPost, "api/v1/actions", pause)
	ask("o", http.MethodPost, "api/v1/actions", `{"verb": "delete", "queue": "payments", "scope": "id", "id": "order-7"}`)
	server.Close()
	fmt.Println(x.Stop(ctx))
	// Output:
	// nobody: 401 Unauthorized, order shown: false, card shown: false
	// v: 200 OK, order shown: true, card shown: false
	// v: 403 Forbidden, order shown: false, card shown: false
	// o: 200 OK, order shown: false, card shown: false
	// o: 403 Forbidden, order shown: false, card shown: false
	// <nil>
}
