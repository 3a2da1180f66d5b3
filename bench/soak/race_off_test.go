//go:build !race

package main

const oneIn = 1
