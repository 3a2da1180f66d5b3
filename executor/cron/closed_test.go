package cron_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/cron"
)

// Once a Cron or its executor has stopped, every call says so and changes nothing.
func TestClosed(t *testing.T) {
	for name, stop := range map[string]func(s side) error{
		"the Cron has stopped":     func(s side) error { return s.c.Stop(context.Background()) },
		"the executor has stopped": func(s side) error { return s.x.Stop(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			s := rig{idle: true}.open(t)
			s.add(t, "a", "@hourly")
			require.NoError(t, stop(s))
			for call, err := range map[string]error{
				"Start":      s.c.Start(),
				"Pause":      s.c.Pause(t.Context(), "a"),
				"Resume":     s.c.Resume(t.Context(), "a"),
				"Add":        cron.Add(t.Context(), s.c, s.schedule("b", "@hourly")),
				"TriggerNow": func() error { _, err := s.c.TriggerNow(t.Context(), "a"); return err }(),
			} {
				assert.ErrorIs(t, err, cron.ErrClosed, call)
			}
			assert.False(t, s.c.Leads())
			require.Len(t, s.c.List(), 1, "what there was at the end")
			assert.False(t, s.c.List()[0].Paused)
			assert.ErrorIs(t, s.c.Remove(t.Context(), "a"), cron.ErrClosed)
		})
	}
}
