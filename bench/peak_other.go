//go:build !linux

package main

// peakMiB is not known here.
func peakMiB() float64 { return 0 }

func memoryMiB(string) float64 { return 0 }
