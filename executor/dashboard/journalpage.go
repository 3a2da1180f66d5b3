package dashboard

import (
	"archive/tar"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/inspect"
	"github.com/strandjobs/strand/executor/internal/serving"
)

// journalPage is how the journal is doing.
type journalPage struct {
	inspect.JournalStats
	Backlog  inspect.Backlog
	InMemory bool
}

// Share is how much of the log is alive, in percent.
func (p journalPage) Share() int {
	if p.Bytes == 0 {
		return 100
	}
	return 100 * p.LiveBytes / p.Bytes
}

// PerCommit is how long the disk took for one, on average.
func (p journalPage) PerCommit() time.Duration {
	return p.CommitTime / time.Duration(max(p.Commits, 1))
}

func (h *handler) journal(w http.ResponseWriter, r *http.Request) error {
	stats, err := h.x.Stats(r.Context())
	if err != nil {
		return err
	}
	can, err := h.can(r, "", CopyJournal)
	if err != nil {
		return err
	}
	p := journalPage{stats.Journal, stats.Backlog, stats.Journal.UUID == ""}
	return h.show(w, r, http.StatusOK, "journal.html", page{Title: "Journal", Here: "journal", Content: p, Can: can})
}

// copy sends a copy of the journal, as a tar with the directory of a journal in it. It
// is made beside the journal's work, in the directory for temporary files, one at a
// time.
func (h *handler) copy(w http.ResponseWriter, r *http.Request) error {
	o := order{Verb: CopyJournal}
	if err := h.permit(r, &o); err != nil {
		return err
	}
	if err := r.ParseForm(); err != nil {
		return unread(err)
	}
	for name := range r.Form {
		return wrong("%q is given, and a copy is one of all", clip(name, 40))
	}
	heard(w)
	select {
	case h.copies <- struct{}{}:
		defer func() { <-h.copies }()
	default:
		return problem{http.StatusConflict, "another copy is being made; come back when it is done"}
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.cfg.ActionTimeout)
	defer cancel()
	temp, err := os.MkdirTemp("", "strand-copy-")
	if err != nil {
		return err
	}
	defer func() {
		if err := os.RemoveAll(temp); err != nil {
			h.cfg.Logger.Warn("a copy of the journal is left over", slog.String("dir", temp), slog.Any("error", err))
		}
	}()
	dir := filepath.Join(temp, "journal.strand")
	err = h.x.Copy(ctx, dir)
	h.record(r, &o, "dashboard: an action", slog.Attr{}, err)
	if errors.Is(err, executor.ErrState) {
		return problem{http.StatusConflict, err.Error()}
	} else if err != nil {
		return late(err, "The copy takes longer than Config.ActionTimeout: nothing of it is sent.")
	}
	w.Header().Set("Content-Type", "application/x-tar")
	w.Header().Set("Content-Disposition", `attachment; filename="journal.strand.tar"`)
	out := tar.NewWriter(serving.Endless(w))
	if err := out.AddFS(os.DirFS(temp)); err != nil {
		panic(http.ErrAbortHandler) // the client has gone, or has to know that this is not all
	}
	return out.Close()
}
