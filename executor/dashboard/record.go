package dashboard

import (
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"

	"github.com/strandjobs/strand/executor/inspect"
)

// record has an action in the log: all that it was asked with, by whom, and what came of
// it. What is not there is left out.
func (h *handler) record(r *http.Request, o *order, text string, affected slog.Attr, err error) {
	key, schedule := o.Name, ""
	if slices.Contains(deeds[o.Verb].needs, "schedule") {
		key, schedule = "", o.Name
	}
	line := []slog.Attr{
		slog.String("verb", string(o.Verb)), slog.String("scope", o.Scope), slog.String("queue", o.Queue),
		slog.String("id", o.ID), slog.Int("selected", len(o.Picks)), slog.Any("states", o.states),
		slog.String("prefix", o.list.Prefix), slog.String("containing", o.list.Error), slog.String("reason", o.reason),
		slog.String("key", key), slog.Int("cron", o.Index), slog.String("schedule", schedule),
	}
	line = slices.DeleteFunc(line, func(a slog.Attr) bool {
		states, is := a.Value.Any().([]inspect.JobState)
		return is && len(states) == 0 || a.Value.Equal(slog.StringValue("")) || a.Value.Equal(slog.IntValue(0))
	})
	line = append(line, affected, slog.String("from", r.RemoteAddr))
	if user := h.user(r); user != "" {
		line = append(line, slog.String("user", user))
	}
	level := slog.LevelInfo
	if err != nil {
		level = slog.LevelWarn
		line = append(line, slog.Any("error", err))
	}
	h.cfg.Logger.LogAttrs(r.Context(), level, text, line...)
}

// user is who asks, as Config.User says.
func (h *handler) user(r *http.Request) (name string) {
	if h.cfg.User == nil {
		return ""
	}
	defer func() {
		if v := recover(); v != nil {
			h.cfg.Logger.Error("User of the dashboard panicked", slog.Any("panic", v),
				slog.String("stack", string(debug.Stack())))
		}
	}()
	return h.cfg.User(r)
}
