package journal

import "slices"

// entriesOf returns the entries that rewrites write. They may have to be read from the
// disk.
func entriesOf(list []Rewrite) (entries []Entry, err error) {
	if len(list) == 0 {
		return nil, nil
	}
	entries = make([]Entry, len(list))
	for i := range list {
		if err := list[i].Ref.Read(&entries[i]); err != nil {
			return nil, err
		}
		entries[i].Payload = list[i].Payload
	}
	return entries, nil
}

// rewrite writes entries again, with other payloads. A position that is in two blocks
// counts in the later one, as one that was carried does; so what it takes the place of
// gets no mark, but leaves the accounts. The caller holds mu.
func (l *Log) rewrite(entries []Entry, list []Rewrite) {
	for i := range list {
		r := &list[i]
		if r.Ref.Fresh() {
			panic("journal: bug: an entry was rewritten twice in one block")
		}
		l.chain.End(r.Ref, &l.open.Writer)
		l.open.rewritten = append(l.open.rewritten, uint32(len(l.open.Entries)))
		r.Ref = l.open.Rewrite(&entries[i])
		if !l.volatile {
			l.disk.promised.Add(-int64(r.Room))
		}
	}
}

// rewrites reports whether the entry at off was written again by a call of Record: no
// full disk refuses it.
func (b *openBlock) rewrites(off uint32) bool {
	_, found := slices.BinarySearch(b.rewritten, off)
	return found
}
