package cron_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/cron"
)

// TestPayloadMayCallBack: it is called under no lock, so it may ask and change what
// it is called by.
func TestPayloadMayCallBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := rig{}.open(t)
		s.add(t, "other", "@yearly")
		s.add(t, "report", "* * * * *", func(made *cron.Schedule[string]) {
			made.Payload = func(tick time.Time) string {
				assert.Len(t, s.c.List(), 2)
				assert.True(t, s.c.Leads())
				assert.NoError(t, s.c.Pause(t.Context(), "other"))
				assert.NoError(t, s.c.Resume(t.Context(), "other"))
				return label("report", tick)
			}
		})
		s.start(t)
		time.Sleep(90 * time.Second)
		require.Equal(t, []string{"report@01-01T00:01:00"}, s.r.take())
		s.stop(t)
	})
}
