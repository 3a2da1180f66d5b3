//go:build !race

package cron_test

const oneIn = 1
