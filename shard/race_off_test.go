//go:build !race

package shard

const oneIn = 1
