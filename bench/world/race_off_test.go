//go:build !race

package world

const oneIn = 1
