// Typecheck reports what of a module, its tests included, would not compile on other operating
// systems. It reads all that the module imports from source, which takes seconds where compiling
// it takes minutes:
//
//	typecheck DIR GOOS...
package main

import (
	"fmt"
	"os"

	"golang.org/x/tools/go/packages"
)

func main() {
	wrong := 0
	for _, goos := range os.Args[2:] {
		fmt.Println("types on", goos)
		list, err := packages.Load(&packages.Config{
			Mode:  packages.LoadAllSyntax,
			Dir:   os.Args[1],
			Env:   append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos),
			Tests: true,
		}, "./...")
		if err != nil {
			fmt.Println(err)
			wrong++
		}
		wrong += packages.PrintErrors(list)
	}
	if wrong > 0 {
		os.Exit(1)
	}
}
