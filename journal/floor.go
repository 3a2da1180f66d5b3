package journal

// admit gives e the next position, and what depends on it, and returns where it is in
// the open block. The caller holds mu.
func (l *Log) admit(e *Entry, now *int64) (off uint32) {
	e.Kind, e.Restored, e.Position = KindEnqueued, false, l.manifest.Next
	l.manifest.Next++
	if e.Floor != nil {
		e.Floor.Settle(e, now)
	}
	return l.open.Add(e, false).Off
}

// Raise has no entry with this floor that is appended from now on get a lower score.
func (l *Log) Raise(f *Floor, score float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.Raise(score)
}
