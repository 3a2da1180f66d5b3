package main

// takePoison is the life of N10: a job that ends its process. It needs the
// crash recorder, which is to send such a job to the morgue after three deaths.
func takePoison(life) int { return 0 }
