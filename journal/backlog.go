package journal

import "fmt"

// admissible reports whether n more entries of about need bytes stay within the
// limits. The caller holds mu.
func (l *Log) admissible(n, need int) error {
	entries, bytes := l.backlog()
	if err := fits("entries", entries, n, l.cfg.MaxBacklog); err != nil {
		return err
	}
	return fits("bytes", bytes, need, l.cfg.MaxBacklogBytes)
}

func fits(what string, waiting, more, limit int) error {
	switch {
	case limit == 0 || waiting+more <= limit:
		return nil
	case more > limit:
		return fmt.Errorf("%w: %d %s in one call, the limit of the backlog is %d", ErrTooLarge, more, what, limit)
	}
	return fmt.Errorf("%w: %d %s are waiting, the limit is %d", ErrBacklog, waiting, what, limit)
}

// backlog returns the number and the bytes of the live entries, those of the
// open block included.
func (l *Log) backlog() (entries, bytes int) {
	return l.liveEntries + l.open.block.live, l.live + l.open.block.bytes
}

// Drained returns a channel that is closed when an eighth of the backlog's
// limit is free: the time to try again after ErrBacklog.
func (l *Log) Drained() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.drained == nil {
		l.drained = make(chan struct{})
	}
	drained := l.drained
	l.wakeDrained()
	return drained
}

// wakeDrained has those who wait for room in the backlog look again, once there
// is room for many of them. The caller holds mu.
func (l *Log) wakeDrained() {
	if l.drained == nil {
		return
	}
	entries, bytes := l.backlog()
	if low(entries, l.cfg.MaxBacklog) && low(bytes, l.cfg.MaxBacklogBytes) {
		close(l.drained)
		l.drained = nil
	}
}

func low(waiting, limit int) bool { return limit == 0 || waiting <= limit-max(limit/8, 1) }
