//go:build race

package world

// The detector takes ten times as long, and sees in one world what it sees in ten.
const oneIn = 20
