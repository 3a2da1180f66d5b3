package dashboard

import (
	"context"
	"fmt"
	"net/http"
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
	return h.show(w, r, http.StatusOK, "schedules.html", page{
		Title: "Schedules", Here: "schedules", Content: p, Can: h.can(r, "", Trigger, PauseSchedule, ResumeSchedule),
	})
}

// schedule does something with a schedule.
func (h *handler) schedule(ctx context.Context, o order) error {
	if o.Index < 0 || o.Index >= len(h.cfg.Crons) {
		return problem{http.StatusNotFound, fmt.Sprintf("there is no Cron %d in Config.Crons", o.Index)}
	}
	c := h.cfg.Crons[o.Index]
	switch o.Verb {
	case PauseSchedule:
		return c.Pause(ctx, o.Name)
	case ResumeSchedule:
		return c.Resume(ctx, o.Name)
	}
	_, err := c.TriggerNow(ctx, o.Name)
	return err
}

// Left is how long a reign goes on if it is not extended.
func (l leaderOf) Left(now time.Time) time.Duration { return max(l.Until.Sub(now), 0) }
