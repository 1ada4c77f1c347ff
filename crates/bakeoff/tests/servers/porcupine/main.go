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
	Witness  uint64 `json:"witness"`
	Outcome  string `json:"outcome"`
	StartNs  int64  `json:"start_ns"`
	EndNs    int64  `json:"end_ns"`
	// State of a missing key that it saw or made.
	missing int64
}

// States of a missing key: 0 at first, negative numbers after deletes in the order of their witnesses, and these.
const (
	deletedAtUnknownPlace = math.MinInt64
	anyMissing            = math.MinInt64 + 1
)

// A register. An operation of unknown outcome takes effect at some time after its start, and then shows no answer.
var register = porcupine.Model{
	Init: func() interface{} { return int64(0) },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		value, one := state.(int64), input.(operation)
		meets := func(expected uint32) bool {
			if expected != 0 {
				return value == int64(expected)
			}
			return value <= 0 && (value == one.missing || one.missing == anyMissing || value == deletedAtUnknownPlace)
		}
		switch one.Action {
		case "write":
			return true, int64(one.Value)
		case "delete":
			return true, one.missing
		case "read":
			return meets(one.Value), value
		}
		if meets(one.Expected) {
			return true, int64(one.Value)
		}
		return one.Outcome == "unknown", value
	},
	Equal: func(one, other interface{}) bool { return one == other },
}

// Sets the state of a missing key that each operation saw or made.
func resolveDeletes(history []porcupine.Operation) {
	places := []uint64{}
	for _, one := range history {
		if input := one.Input.(operation); input.Action == "delete" && input.Outcome == "done" && input.Witness != 0 {
			places = append(places, input.Witness)
		}
	}
	for index := range history {
		input := history[index].Input.(operation)
		for _, place := range places {
			if place <= input.Witness {
				input.missing--
			}
		}
		if input.Witness == 0 {
			input.missing = anyMissing
			if input.Action == "delete" {
				input.missing = deletedAtUnknownPlace
			}
		}
		history[index].Input = input
	}
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
		resolveDeletes(histories[key])
		found := porcupine.CheckOperationsTimeout(register, histories[key], 60*time.Second)
		fmt.Println(names[found], key)
	}
}
