module github.com/strandjobs/strand/examples/service

go 1.26.0

replace github.com/strandjobs/strand => ../..
