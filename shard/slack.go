package shard

// A timer wakes a thread, and the result of what it starts wakes the committer.
// So jobs that are put off for long start at moments that all shards have in
// common, the multiples of Config.Slack: those of one moment share a wake-up, and
// most of their results a commit. 278 jobs a second on disk take 6.1 % of a core with
// 25 ms, and 13.8 % without (go run ./bench -run delayed/durable, two cores).

// patience is how many slacks a job is put off at least to have one: a hundredth of
// a pause is not missed.
const patience = 100

// Tick says what time it is. What comes to wait from now on and is due soon is
// prompt: it has no slack.
func (c *throttle) Tick(now int64) {
	c.now, c.soon = now, later(now, patience*c.cfg.Slack)
	c.endRests(now)
}

// expect notes when a job is due that comes to wait.
func (c *agenda) expect(due int64) {
	if due < c.soon {
		c.prompt = max(c.prompt, due)
	}
}

// nextWake returns when to look at the jobs that wait, unless a change comes
// before, or math.MaxInt64: when the oldest is due, or less than a slack later.
// Until the last prompt one is due, the others have no slack either, so that
// one time is all that is to be known about them.
func (c *agenda) nextWake() int64 {
	due, slack := c.NextDue(), int64(c.cfg.Slack)
	if slack == 0 || due <= c.prompt || due > farFuture-slack {
		return due
	}
	return (due + slack - 1) / slack * slack
}
