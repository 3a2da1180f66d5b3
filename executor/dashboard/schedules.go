package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/strandjobs/strand/executor/cron"
	"github.com/strandjobs/strand/lock"
)

// schedulesPage has what ticks, and who leads.
type schedulesPage struct {
	Crons   []cronOf
	Leaders []leaderOf
}

type cronOf struct {
	Index   int
	Leads   bool
	Entries []cron.Entry
}

type leaderOf struct {
	Name string
	lock.Leader
}

func (h *handler) schedules(w http.ResponseWriter, r *http.Request) error {
	var p schedulesPage
	for i, c := range h.cfg.Crons {
		p.Crons = append(p.Crons, cronOf{i, c.Leads(), c.List()})
	}
	for _, e := range h.cfg.Elections {
		leader, _ := e.Leader()
		p.Leaders = append(p.Leaders, leaderOf{e.Name, leader})
	}
	can, err := h.can(r, "", Trigger, PauseSchedule, ResumeSchedule)
	if err != nil {
		return err
	}
	return h.show(w, r, http.StatusOK, "schedules.html", page{
		Title: "Schedules", Here: "schedules", Content: p, Can: can,
	})
}

// schedule does something with a schedule.
func schedule(ctx context.Context, h *handler, o *order) (int, error) {
	if !o.has("cron") && len(h.cfg.Crons) > 1 {
		return 0, wrong("cron is missing: Config.Crons has %d, from 0", len(h.cfg.Crons))
	}
	if o.Index < 0 || o.Index >= len(h.cfg.Crons) {
		return 0, problem{http.StatusNotFound, fmt.Sprintf("there is no Cron %d in Config.Crons", o.Index)}
	}
	c := h.cfg.Crons[o.Index]
	paused := slices.ContainsFunc(c.List(), func(e cron.Entry) bool { return e.Name == o.Name && e.Paused })
	switch o.Verb {
	case PauseSchedule:
		return one(c.Pause(ctx, o.Name), !paused)
	case ResumeSchedule:
		return one(c.Resume(ctx, o.Name), paused)
	}
	_, err := c.TriggerNow(ctx, o.Name)
	return one(err, true)
}

// Left is how long a reign goes on if it is not extended.
func (l leaderOf) Left(now time.Time) time.Duration { return max(l.Until.Sub(now), 0) }
