// Plays one case with go-amqp; `suite.py` starts it.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: suite <case>")
		os.Exit(2)
	}
	play, known := cases[os.Args[1]]
	if !known {
		fmt.Fprintln(os.Stderr, "no case named", os.Args[1])
		os.Exit(2)
	}
	defer func() {
		if failure := recover(); failure != nil {
			fmt.Fprintf(os.Stderr, "%s\n%v\n", debug.Stack(), failure)
			os.Exit(1)
		}
	}()
	play(os.Getenv("FERRYBUS_QUEUE"))
}
