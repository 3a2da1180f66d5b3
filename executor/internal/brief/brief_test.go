package brief_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/internal/brief"
)

func TestTextsAreShortAndWhole(t *testing.T) {
	require.Equal(t, "abc", brief.Cut("abc", 3))
	require.Equal(t, "ab…", brief.Cut("abc", 2))
	for most := range 8 {
		cut := brief.Cut("aäö€😀", most)
		require.True(t, utf8.ValidString(cut), "%d: %q", most, cut)
		require.LessOrEqual(t, len(cut), most+len("…"))
	}
	require.Equal(t, `"\x1b[2J"`, brief.Text("\x1b[2J"))
	require.Less(t, len(brief.Text(strings.Repeat("x", 1000))), 130)
	require.Equal(t, "a, b and 3 more", brief.Some([]string{"a", "b"}, 3, brief.Text))
	require.Equal(t, "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more", brief.Some(strings.Split("0123456789ab", ""), 0, brief.Text))
}
