package command

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/journal"
)

// An export has what goes with a payload, and an import brings it back.
func TestExportHasMetadataAndHistory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "carried.strand")
	l := newLedger(t, dir)
	q := l.queue("orders")
	history := journal.History(nil).Add("", journal.Failure{Attempt: 1, At: ago(time.Hour), Text: "first"}).
		Add("first", journal.Failure{Attempt: 2, At: ago(time.Minute), Text: "second"})
	ticket, err := l.Append(context.Background(), []journal.Entry{
		{Queue: q, ID: []byte("a"), Due: in(time.Hour), Score: 7, Accepted: ago(2 * time.Hour), Metadata: journal.NewMetadata(map[string]string{"trace": "\xff1"})},
		{Queue: q, ID: []byte("b"), Due: ago(time.Hour), Metadata: journal.NewMetadata(map[string]string{"trace": "2"})},
	}, nil)
	require.NoError(t, err)
	require.NoError(t, ticket.Wait(context.Background()))
	l.state(journal.Entry{Queue: q, ID: []byte("a"), Due: in(time.Hour), Retry: 1, Error: []byte("second"), History: history})
	l.close()

	exported, errs, status := strand(t, "", "export", dir)
	require.Zero(t, status, errs)
	require.Contains(t, exported, "trace")
	copied := dir + "-copy"
	_, errs, status = strand(t, exported, "import", copied)
	require.Zero(t, status, errs)
	again, _, _ := strand(t, "", "export", copied)
	require.Equal(t, exported, again)

	v, err := journal.OpenView(copied)
	require.NoError(t, err)
	defer v.Close()
	var live []journal.Entry
	for _, ref := range slices.Concat(v.PendingPages(1)...) {
		var e journal.Entry
		require.NoError(t, ref.Read(&e))
		live = append(live, e)
	}
	require.Len(t, live, 3)
	require.Equal(t, ago(2*time.Hour), live[0].AcceptedAt())
	require.Equal(t, journal.NewMetadata(map[string]string{"trace": "\xff1"}), live[0].Metadata)
	require.Equal(t, history.Failures("second"), live[2].History.Failures("second"))
}

// An export says which dead letters, and which halted jobs, have killed the process. One of a version that did not
// say is imported as it is, for the text of the dead letter to tell.
func TestExportSaysWhatKilledTheProcess(t *testing.T) {
	exported := must(t, "", "export", office(t))
	require.Contains(t, exported, `"reason":"greylisted","crashed":true`)
	require.Contains(t, exported, `"reason":"unknown user","crashed":false`)
	require.Contains(t, exported, `"error":"mailbox full","crashed":true`)
	require.Contains(t, exported, `"error":"no route to host","crashed":false`)
	dir := filepath.Join(t.TempDir(), "again")
	must(t, exported, "import", dir)
	require.Equal(t, exported, must(t, "", "export", dir))

	old := strings.NewReplacer(`,"crashed":true`, "", `,"crashed":false`, "", `"version":3`, `"version":2`).Replace(exported)
	must(t, old, "import", dir+"-old")
	again := must(t, "", "export", dir+"-old")
	require.NotContains(t, again, `"reason":"greylisted","crashed"`)
	require.NotContains(t, again, `"reason":"unknown user","crashed"`)
	must(t, "", "salvage", dir, dir+"-saved")
	require.Equal(t, strings.Count(exported, `"crashed":true`), strings.Count(must(t, "", "export", dir+"-saved"), `"crashed":true`))
}
