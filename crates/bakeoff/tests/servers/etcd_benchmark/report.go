// Prints the report that etcd's benchmark prints for given times.
//
// Arguments: the format of numbers, the name of the operation, `sample` or `whole`, and the folder for perfdash's JSON.
// Standard input has a line for each result: its start in nanoseconds since 1970 and its length in nanoseconds, or
// `error` and a text.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"go.etcd.io/etcd/pkg/v3/report"
)

func main() {
	os.Setenv("ARTIFACTS", os.Args[4])
	made := report.NewReport
	if os.Args[3] == "sample" {
		made = report.NewReportSample
	}
	r := made(os.Args[1], os.Args[2], true)
	done := r.Run()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		line := lines.Text()
		if text, found := strings.CutPrefix(line, "error "); found {
			r.Results() <- report.Result{Err: errors.New(text)}
			continue
		}
		var start, length int64
		if _, err := fmt.Sscan(line, &start, &length); err != nil {
			panic(err)
		}
		began := time.Unix(0, start)
		r.Results() <- report.Result{Start: began, End: began.Add(time.Duration(length))}
	}
	close(r.Results())
	fmt.Print("\f", <-done)
}
