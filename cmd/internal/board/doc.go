// Package board is the live screen of a run on a terminal.
//
//  1. Start takes the terminal: alternate screen, keys one by one.
//  2. The run hands its events to Board.Event, which notes them and returns at
//     once: nothing that the terminal does can hold up a measurement.
//  3. Twice a second the screen takes the noted events and a loadgen.Snapshot
//     into its model (model.go), reckons what time is left (left.go) and draws
//     the whole frame (frame.go, grid.go). Model and frame are plain values and
//     functions; Bubble Tea sees them through the adapter in program.go.
//  4. Close gives the terminal back as it was.
package board
