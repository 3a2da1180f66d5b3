package cron_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/cron"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	require.NoError(t, err)
	return z
}

func parse(t testing.TB, spec string, z *time.Location) cron.Timetable {
	t.Helper()
	table, err := cron.Parse(spec, z)
	require.NoError(t, err)
	return table
}

func TestParseRefuses(t *testing.T) {
	for _, spec := range []string{
		"", " ", "*", "* * * *", "* * * * * *", "60 * * * *", "-1 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *",
		"* * * 13 * ", "* * * * 8", "*/0 * * * *", "5-1/x * * * *", "a * * * *", "* * * foo *", "1-2-3 * * * *",
		"@reboot", "@", "@every", "@every ", "@every 0s", "@every -1m", "@every 1500ms", "@every x", "@every 300y", "@hourly 1",
		"0 0 30 2 *", "0 0 31 4,6,9,11 *", "CRON_TZ=UTC", "CRON_TZ=UTC ", "TZ=UTC TZ=UTC 0 4 * * *",
		strings.Repeat("0,", 5000) + "0 * * * *", "\x00", "é * * * *",
	} {
		_, err := cron.Parse(spec, nil)
		require.ErrorIs(t, err, executor.ErrConfig, "%q", spec)
		require.ErrorContains(t, err, "invalid configuration: schedule ")
	}
	for _, spec := range []string{"CRON_TZ=Mars/Phobos 0 4 * * *", "TZ= 0 4 * * *", "CRON_TZ=../UTC 0 4 * * *", "CRON_TZ=Mars"} {
		_, err := cron.Parse(spec, nil)
		require.ErrorIs(t, err, executor.ErrConfig, "%q", spec)
	}
	require.True(t, cron.Timetable{}.Next(time.Now()).IsZero(), "the zero Timetable never ticks")
}

// What happens around the changes of a clock, in words.
func TestNext(t *testing.T) {
	for _, c := range []struct{ spec, after, want string }{
		{"* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"},
		{"* * * * *", "2026-01-01T00:00:59.999999999Z", "2026-01-01T00:01:00Z"},
		{"0 4 * * *", "2026-11-21T04:00:00Z", "2026-11-22T04:00:00Z"},
		{"0 4 * * *", "2026-11-21T03:59:59.5Z", "2026-11-21T04:00:00Z"},
		{"  0   4 * *  1-5 ", "2026-11-20T05:00:00Z", "2026-11-23T04:00:00Z"},
		{"0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"0 0 29 2 *", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"},
		{"0 0 13 * 5", "2026-11-02T00:00:00Z", "2026-11-06T00:00:00Z"}, // one of the days is enough
		{"0 0 * * 7", "2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z"},
		{"0 22-1 * * *", "2026-11-21T23:00:00Z", "2026-11-22T00:00:00Z"}, // a range goes round
		{"0 22-1 * * *", "2026-11-21T01:00:00Z", "2026-11-21T22:00:00Z"},
		{"0 4 * * FRI-MON", "2026-11-23T04:00:00Z", "2026-11-27T04:00:00Z"},
		{"58-1 * * * *", "2026-11-21T04:01:00Z", "2026-11-21T04:58:00Z"},
		{"@yearly", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"@weekly", "2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z"},
		{"@every 90s", "2026-01-01T00:00:00Z", "2026-01-01T00:01:30Z"},
		{"@every 90s", "2026-01-01T00:01:29.9Z", "2026-01-01T00:01:30Z"},
		{"@every 24h", "2026-01-01T00:00:01Z", "2026-01-02T00:00:00Z"},
		{"@every 1s", "1969-12-31T23:59:58.5Z", "1969-12-31T23:59:59Z"},
		{"TZ=Asia/Kolkata 30 5 * * *", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"},

		// Berlin: 02:00 +01:00 is followed by 03:00 +02:00 …
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T01:00:00Z"},
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"},
		{"CRON_TZ=Europe/Berlin */20 2,3 * * *", "2026-03-29T00:59:59Z", "2026-03-29T01:00:00Z"}, // once for 02:00, 02:20, 02:40, and 03:00
		{"CRON_TZ=Europe/Berlin */20 2,3 * * *", "2026-03-29T01:00:00Z", "2026-03-29T01:20:00Z"},
		{"CRON_TZ=Europe/Berlin 30 * * * *", "2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z"}, // nothing in the gap
		{"CRON_TZ=Europe/Berlin 59 1 * * *", "2026-03-29T00:00:00Z", "2026-03-29T00:59:00Z"},
		// … and 03:00 +02:00 by 02:00 +01:00.
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"},
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
		{"CRON_TZ=Europe/Berlin 0 3 * * *", "2026-10-25T00:30:00Z", "2026-10-25T02:00:00Z"},
		{"CRON_TZ=Europe/Berlin 30 * * * *", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"}, // both
		// Lord Howe changes by half an hour: 02:00 +10:30 is 02:30 +11, and back.
		{"CRON_TZ=Australia/Lord_Howe 15 2 * * *", "2026-10-03T12:00:00Z", "2026-10-03T15:30:00Z"},
		{"CRON_TZ=Australia/Lord_Howe 45 1 * * *", "2026-04-04T12:00:00Z", "2026-04-04T14:45:00Z"},
		{"CRON_TZ=Australia/Lord_Howe 45 1 * * *", "2026-04-04T14:45:00Z", "2026-04-05T15:15:00Z"},
		// The last day of a leap year, for which time.Time.ZoneBounds ends too
		// early.
		{"CRON_TZ=Europe/Berlin 59 23 31 12 *", "2039-12-31T22:59:00Z", "2040-12-31T22:59:00Z"},
		{"CRON_TZ=Europe/Berlin 59 23 31 12 *", "2040-12-31T22:58:59Z", "2040-12-31T22:59:00Z"},
		{"CRON_TZ=Europe/Berlin 59 * * * *", "2040-12-31T22:59:00Z", "2040-12-31T23:59:00Z"},
		// Samoa had no 30 December 2011.
		{"CRON_TZ=Pacific/Apia 0 4 30 12 *", "2011-12-01T00:00:00Z", "2011-12-30T10:00:00Z"},
		{"CRON_TZ=Pacific/Apia 0 * 30 12 *", "2011-12-01T00:00:00Z", "2012-12-29T10:00:00Z"},
	} {
		after, err := time.Parse(time.RFC3339Nano, c.after)
		require.NoError(t, err)
		table := parse(t, c.spec, nil)
		require.Equal(t, c.want, table.Next(after).UTC().Format(time.RFC3339Nano), "%q after %s", c.spec, c.after)
	}
	berlin := zone(t, "Europe/Berlin")
	require.Equal(t, "CET", parse(t, "0 4 * * *", berlin).Next(time.Unix(0, 0)).Format("MST"))
	require.Equal(t, "UTC", parse(t, "0 4 * * *", nil).Next(time.Unix(0, 0)).Format("MST"))
}

// pattern is a schedule as a function of what the clock shows.
type pattern struct {
	spec     string
	matches  func(r time.Time) bool
	allHours bool
}

var patterns = []pattern{
	{"30 2 * * *", func(r time.Time) bool { return r.Hour() == 2 && r.Minute() == 30 }, false},
	{"*/15 1-3 * * *", func(r time.Time) bool { return r.Hour() >= 1 && r.Hour() <= 3 && r.Minute()%15 == 0 }, false},
	{"*/30 * * * *", func(r time.Time) bool { return r.Minute()%30 == 0 }, true},
	{"@hourly", func(r time.Time) bool { return r.Minute() == 0 }, true},
	{"0 */2 * * *", func(r time.Time) bool { return r.Minute() == 0 && r.Hour()%2 == 0 }, false},
	{"5 2 * * 0", func(r time.Time) bool { return r.Weekday() == 0 && r.Hour() == 2 && r.Minute() == 5 }, false},
	{"@daily", func(r time.Time) bool { return r.Minute() == 0 && r.Hour() == 0 }, false},
}

var zones = []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Tokyo", "America/Havana", "Africa/Casablanca", "Antarctica/Troll"}

// simple finds the ticks of all patterns between two moments by looking at every
// reading of a clock, and at what it leaves out.
func simple(z *time.Location, begin, end time.Time) map[string][]time.Time {
	ticks := make(map[string][]time.Time)
	past := reading(begin, z) // the last reading, and the latest: where it is set back they differ
	for at, latest := begin.Add(step), past; at.Before(end); at = at.Add(step) {
		now := reading(at, z)
		for _, p := range patterns {
			hit := p.matches(now) && (p.allHours || now.After(latest))
			for r := past.Add(step); !p.allHours && r.Before(now); r = r.Add(step) { // a gap
				hit = hit || p.matches(r)
			}
			if hit {
				ticks[p.spec] = append(ticks[p.spec], at.UTC())
			}
		}
		if past = now; now.After(latest) {
			latest = now
		}
	}
	return ticks
}

// step divides all patterns, and all changes of clocks.
const step = 5 * time.Minute

func reading(at time.Time, z *time.Location) time.Time {
	at = at.In(z)
	return time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), 0, 0, time.UTC)
}

// A whole year, against a model that is too simple to be wrong.
func TestNextIsTheSimpleOne(t *testing.T) {
	slow(t)
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	end := begin.AddDate(1, 0, 0)
	for i, name := range zones {
		if i%oneIn != 0 {
			continue
		}
		z := zone(t, name)
		want := simple(z, begin, end)
		for _, p := range patterns {
			var got []time.Time
			table := parse(t, p.spec, z)
			for at := table.Next(begin); at.Before(end); at = table.Next(at) {
				got = append(got, at.UTC())
			}
			require.Equal(t, want[p.spec], got, "%s in %s", p.spec, name)
		}
	}
}

func TestNewest(t *testing.T) {
	slow(t)
	begin := time.Date(2026, 3, 20, 0, 0, 0, 0, time.UTC)
	for _, spec := range []string{"@every 1s", "@every 7m", "*/15 1-3 * * *", "0 4 * * 1", "@monthly"} {
		table := parse(t, spec, zone(t, "Europe/Berlin"))
		for _, length := range []time.Duration{0, time.Second, time.Minute, time.Hour, 3 * time.Hour, 15 * 24 * time.Hour} {
			after, until := begin.Add(11*time.Second), begin.Add(11*time.Second+length)
			var all []time.Time
			for at := table.Next(after); !at.After(until); at = table.Next(at) {
				all = append(all, at)
			}
			for _, n := range []int{1, 2, 1000} {
				want := all[max(0, len(all)-n):]
				require.True(t, slices.Equal(want, table.Newest(after, until, n)), "%s %v %d", spec, length, n)
			}
		}
	}
	// Thousands of years of seconds cost no more than a thousand of them.
	require.Len(t, parse(t, "@every 1s", nil).Newest(time.Time{}, begin, 1000), 1000)
	require.Len(t, parse(t, "@yearly", nil).Newest(time.Time{}, begin, 1000), 1000)
}

// Whatever is accepted ticks in whole seconds, forward, and lists as it ticks.
func FuzzParse(f *testing.F) {
	for _, p := range patterns {
		f.Add(p.spec, int64(1774746000))
	}
	f.Add("CRON_TZ=Europe/Berlin 30 2 29 2 *", int64(0))
	f.Add("TZ=0", int64(-1))
	f.Add("@every 1h30m", int64(1<<33))
	f.Fuzz(func(t *testing.T, spec string, unix int64) {
		table, err := cron.Parse(spec, nil)
		if err != nil {
			return
		}
		at := time.Unix(unix%(1<<36), unix%7)
		for range 3 {
			next := table.Next(at)
			if next.IsZero() {
				return
			}
			require.True(t, next.After(at))
			require.Zero(t, next.Nanosecond())
			require.True(t, table.Next(next.Add(-time.Nanosecond)).Equal(next))
			at = next
		}
	})
}
