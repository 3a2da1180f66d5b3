//go:build !race

package journal

const oneIn = 1
