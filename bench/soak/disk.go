package main

func fillDisk(life) int { return 0 }
