package dashboard

import (
	"mime"
	"net/http"

	"github.com/strandjobs/strand/executor/inspect"
)

// apiAct does what a POST asks for. It asks nothing back: a program means what it says.
func (h *handler) apiAct(w http.ResponseWriter, r *http.Request) error {
	if _, err := paramsOf(r); err != nil {
		return err
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	o, err := orderIn(kind, r.Body)
	if err != nil {
		return err
	}
	heard(w)
	if err := h.permit(r, &o); err != nil {
		return err
	}
	o.back = new(inspect.Requeued)
	n, err := h.perform(r, o)
	if err != nil && !gone(r, err) {
		h.refuse(w, r, err, n)
		return nil
	}
	if err != nil {
		return err
	}
	return sendJSON(w, r, http.StatusOK, "application/json", wireAffected{n, o.what(), *o.back})
}
