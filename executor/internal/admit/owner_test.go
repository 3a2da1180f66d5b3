package admit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOwnersHaveNamesOfTheirOwn(t *testing.T) {
	require.Empty(t, Owner{}.String())
	require.Equal(t, "a/b", Owner{ID: "a/b"}.String())
	names := map[string]Owner{}
	for _, o := range []Owner{{"a", "b"}, {"a/b", "c"}, {"a", "b/c"}, {`"a/b"`, "c"}, {"a", `"b"`}, {"a", "\x1b[2J"}, {"a", `"\x1b[2J"`}} {
		require.NotContains(t, names, o.String())
		require.NotContains(t, o.String(), "\x1b")
		names[o.String()] = o
	}
}
