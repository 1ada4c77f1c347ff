// Judges an exported history of bakeoff with porcupine, key by key. Prints `violated` or `linearizable` and the key, one
// line for each key.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// One line of the history. `Value` and `Expected` are 0 for a missing key.
type operation struct {
	Key      string `json:"key"`
	Client   int    `json:"client"`
	Action   string `json:"action"`
	Value    uint32 `json:"value"`
	Expected uint32 `json:"expected"`
	Outcome  string `json:"outcome"`
	StartNs  int64  `json:"start_ns"`
	EndNs    int64  `json:"end_ns"`
}

// A register. An operation of unknown outcome takes effect at some time after its start, and then shows no answer.
var register = porcupine.Model{
	Init: func() interface{} { return uint32(0) },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		value, one := state.(uint32), input.(operation)
		switch one.Action {
		case "write":
			return true, one.Value
		case "read":
			return value == one.Value, value
		}
		if value == one.Expected {
			return true, one.Value
		}
		return one.Outcome == "unknown", value
	},
	Equal: func(one, other interface{}) bool { return one == other },
}

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	histories := map[string][]porcupine.Operation{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var one operation
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			panic(err)
		}
		if one.Outcome == "refused" {
			continue
		}
		end := one.EndNs
		if one.Outcome == "unknown" {
			end = math.MaxInt64
		}
		histories[one.Key] = append(histories[one.Key], porcupine.Operation{
			ClientId: one.Client, Input: one, Call: one.StartNs, Return: end,
		})
	}
	if err := lines.Err(); err != nil {
		panic(err)
	}
	keys := []string{}
	for key := range histories {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	names := map[porcupine.CheckResult]string{
		porcupine.Ok: "linearizable", porcupine.Illegal: "violated", porcupine.Unknown: "undecided",
	}
	for _, key := range keys {
		found := porcupine.CheckOperationsTimeout(register, histories[key], 60*time.Second)
		fmt.Println(names[found], key)
	}
}
