package each

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOf(t *testing.T) {
	require.Equal(t, []string{"1", "2"}, Of([]int{1, 2}, strconv.Itoa))
	require.Nil(t, Of([]int{}, strconv.Itoa))
}
