package journal

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/strandjobs/strand/journal/internal/store"
	"github.com/stretchr/testify/require"
)

// filling is a disk that is full for one commit, during which something happens.
type filling struct {
	*store.Memory
	during func() // nil: there is room
}

func (f *filling) Commit(t *store.Transaction) error {
	if during := f.during; during != nil {
		f.during = nil
		during()
		return ErrFull
	}
	return f.Memory.Commit(t)
}

// Positions that were refused while the block before them was on its way leave no gap:
// whatever comes next, the journal opens.
func TestRefusedWhileABlockIsOnItsWay(t *testing.T) {
	for name, next := range map[string]func(t *testing.T, l *Log){
		"nothing": func(*testing.T, *Log) {},
		"a state key": func(t *testing.T, l *Log) {
			require.NoError(t, l.Put(t.Context(), Set{Key: "test/key", Value: []byte("1")}))
		},
		"an entry": func(t *testing.T, l *Log) {
			_, err := l.Append(t.Context(), []Entry{{ID: []byte("after")}}, nil)
			require.NoError(t, err)
		},
		"a key, then an entry": func(t *testing.T, l *Log) {
			require.NoError(t, l.Put(t.Context(), Set{Key: "test/key", Value: []byte("1")}))
			_, err := l.Append(t.Context(), []Entry{{ID: []byte("after")}}, nil)
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := &filling{Memory: new(store.Memory)}
				var got []Ref
				l := newLog(disk, Config{Deliver: func(d *Delivery) {
					var e Entry
					for i := range d.Len() {
						ref, err := d.Read(i, &e)
						if err != nil {
							panic(err)
						}
						got = append(got, ref)
					}
					d.Done()
				}}, false)
				require.NoError(t, l.boot())
				_, err := l.Append(t.Context(), []Entry{{ID: []byte("a")}, {ID: []byte("b")}}, nil)
				require.NoError(t, err)
				synctest.Wait()
				require.Len(t, got, 2)

				var late Ticket
				disk.during = func() {
					var err error
					if late, err = l.Append(t.Context(), []Entry{{ID: []byte("late")}, {ID: []byte("too")}}, nil); err != nil {
						panic(err)
					}
				}
				l.Record(&Change{Ended: got[:1]})
				synctest.Wait()
				require.ErrorIs(t, late.Wait(t.Context()), ErrFull)
				require.NoError(t, awaitRoom(t, l))
				next(t, l)
				require.NoError(t, l.Close())

				again, err := OpenMemory(disk.Memory, Config{})
				require.NoError(t, err)
				require.NoError(t, again.Close())
			})
		})
	}
}

// awaitRoom returns when the log has looked for room again.
func awaitRoom(t *testing.T, l *Log) error {
	for range 10 {
		if err := l.Flush(t.Context()); err == nil {
			return nil
		}
		time.Sleep(fullRetry)
	}
	return l.Flush(t.Context())
}
