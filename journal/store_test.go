package journal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/internal/journaltest"
	"github.com/strandjobs/strand/journal/internal/store"
)

// storeDisk is a journal on a store that somebody else brings.
type storeDisk struct{ *store.Memory }

func (d storeDisk) Open(cfg journal.Config) (*journal.Log, error) {
	return journal.OpenStore(d.Memory, cfg)
}

func (d storeDisk) Crash(testing.TB) journaltest.Disk { return storeDisk{d.Memory.Crash()} }

func TestContractOnStore(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) journaltest.Disk {
		t.Parallel()
		return storeDisk{new(store.Memory)}
	})
}

func TestOpenStoreOfNothing(t *testing.T) {
	_, err := journal.OpenStore(nil, journal.Config{})
	require.ErrorContains(t, err, "no store")
}

// Without a directory there is no file to ask for its size.
func TestInfoOfAStore(t *testing.T) {
	l, err := journal.OpenStore(new(store.Memory), journal.Config{})
	require.NoError(t, err)
	require.Zero(t, l.Info().FileBytes)
	require.NoError(t, l.Close())
}
