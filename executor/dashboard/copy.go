package dashboard

import (
	"archive/tar"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/internal/serving"
)

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
