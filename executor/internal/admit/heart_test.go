package admit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A heart that is stopped in the middle of a beat, which may wait for who stops it, beats no more.
func TestAHeartThatIsStoppedWhileItBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Heart
		beats, goOn := 0, make(chan struct{})
		h.Beat(t.Context(), time.Second, func() bool {
			beats++
			<-goOn
			return true
		})
		time.Sleep(time.Second)
		synctest.Wait()
		h.StopHeart()
		close(goOn)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 1, beats)
	})
}
