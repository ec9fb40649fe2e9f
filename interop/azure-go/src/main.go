// Plays one case with the Go SDK of Azure Service Bus; `suite.py` starts it.
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

var cases = map[string]func(queue string){
	"send-one":                               sendOne,
	"send-batch":                             sendBatch,
	"peek-lock-complete":                     complete,
	"peek-lock-abandon":                      abandon,
	"peek-lock-dead-letter":                  deadLetter,
	"peek-lock-defer":                        deferred,
	"deferred-by-number":                     deferredByNumber,
	"receive-and-delete":                     receiveAndDelete,
	"receive-time-out-on-empty-queue":        timeOut,
	"lock-renewal":                           renewal,
	"lock-loss":                              loss,
	"delivery-count-to-dead-letter":          countToDeadLetter,
	"peek":                                   peek,
	"two-competing-receivers":                competing,
	"wrong-key":                              wrongKey,
	"server-name-with-port":                  serverNameWithPort,
	"missing-queue":                          missing,
	"missing-entity-at-once":                 missingAtOnce,
	"oversized-message":                      oversized,
	"large-message":                          large,
	"largest-message":                        largest,
	"annotations-and-header":                 annotations,
	"round-trip":                             roundTrip,
	"link-close-and-reopen":                  reopen,
	"web-socket":                             webSocket,
	"schedule-and-cancel":                    schedule,
	"slow-listener":                          slowListener,
	"clock-advance":                          clockMoves,
	"settle-after-the-link-is-gone":          settleAfterLink,
	"reconnect":                              reconnect,
	"administration-missing":                 administrationMissing,
	"session-accept":                         sessionAccept,
	"session-order":                          sessionOrder,
	"session-state":                          sessionState,
	"session-listing":                        sessionListing,
	"session-deferred":                       sessionDeferred,
	"session-lost":                           sessionLost,
	"sessions-beside-a-sender":               sessionsBesideSender,
	"topics/each-subscription-gets-its-copy": eachCopy,
	"topics/copies-are-settled-apart":        settledApart,
	"topics/rules-choose":                    rulesChoose,
	"topics/sessions":                        topicSessions,
	"administration":                         administration,
	"administration-without-the-right":       lackingRights,
	"session-required":                       sessionRequired,
	"namespaces":                             threeNamespaces,
	"namespaces-web-socket":                  threeNamespacesOverWebSocket,
	"namespace-held":                         namespaceHeld,
	"namespace-max-connections":              namespaceMaxConnections,
	"namespace-max-bytes":                    namespaceMaxBytes,
	"administration-of-namespaces":           namespaceAdministration,
	"restart-before":                         restartBefore,
	"restart-between":                        restartBetween,
	"restart-after":                          restartAfter,
}
