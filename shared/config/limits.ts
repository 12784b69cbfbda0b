/**
 * Everything that is bounded, with its reason. What an operator may want to change is in the environment (config.ts);
 * these are properties of the design.
 */
export const LIMITS = {
  /** CONTRACT: a larger body is refused with 413. */
  bodyBytes: 16 * 1024,
  /** Node's default is 16 KiB; a ticket, a JWT and the usual headers fit into half of it. */
  headerBytes: 16 * 1024,
  /** A client that has not sent its headers by then is slow on purpose. */
  headersTimeoutMs: 10_000,
  /** The whole request; the largest body takes milliseconds on any network that could pay. */
  requestTimeoutMs: 15_000,
  /** How often Node looks for connections over these two limits. Its default of 30 s would triple them. */
  connectionCheckMs: 1_000,
  /** A client that takes no byte of its response for so long is gone, or holds our memory on purpose. No response takes as long. */
  idleTimeoutMs: 30_000,
  /** Large documents (`/metrics`, `/docs`, `/openapi.json`) for one network in ten seconds: far more than scrapers and readers need. */
  documentsPer10s: 2_000,
  /** Requests of one connection served at once; what else it pipelines waits, and the connection is not read meanwhile. */
  requestsPerConnection: 8,
  /** Longer than a load balancer's usual 60 s would be, shorter would make it reuse closed connections. */
  keepAliveTimeoutMs: 65_000,
  /** Refused by the kernel beyond it; each idle connection costs some KiB. */
  connections: 20_000,
  /** Of one network, where no proxy stands in front: it cannot keep everyone else out. */
  connectionsPerNetwork: 15_000,
  /** One call to Redis: an answer within 2 s is promised, so the engine gets less. */
  redisCommandMs: 1_000,
  /** When the connection itself gives a command up: later, since a process that was busy has yet to read its answer. */
  redisSilenceMs: 1_500,
  redisConnectMs: 1_500,
  /**
   * Shares of Redis's `maxmemory`. Above the first new claims are refused: at 100 % Redis refuses every write, and payments,
   * releases and the jobs that empty the journal need the rest. Below the second they are accepted again.
   */
  redisMemory: { refuseAbove: 0.9, acceptBelow: 0.88 },
  /** How long one WAIT blocks its connection; with too few replicas the next round follows until `replicationWaitMs`. */
  replicationRoundMs: 100,
  /** How long an answer waits for replicas before 503; the promise is kept, the retry gets it. */
  replicationWaitMs: 500,
  /** One statement of the API; the worker's batches have their own. */
  postgresStatementMs: 1_500,
  postgresBatchStatementMs: 30_000,
  /** One statement of a batch takes milliseconds; one that hangs is begun again, with half as much. */
  persistStatementMs: 3_000,
  postgresConnectMs: 1_500,
  /** 20 checkouts in any second for one device (CONTRACT §5). */
  deviceQuota: 20,
  deviceWindowMs: 1_000,
  /** Units and places promised to a user in one campaign beyond the allowance, counted by each process; further new keys get 429. */
  placeCalls: 60,
  placeWindowMs: 600_000,
  /** Journal entries in one Postgres transaction: 500 cost 3 µs a row, more gains nothing and delays durable answers. */
  persistBatchEntries: 500,
  /**
   * Batches that no response waits for begin so far apart: half a batch at 5,000 promises a second. Rows and events are
   * that much later.
   */
  gatherMs: 50,
  /** Reservations ended by one script call. */
  sweepBatch: 100,
  /** People promoted by one script call: at most 2 ms, in which Redis serves no other request. Larger steps save nothing more. */
  promoteBatch: 50,
  /** How often deadlines are looked at; with the batch time this bounds how late an expiry is. */
  sweepEveryMs: 250,
  /** How often lines are looked at, and people of each sort in one call: about 2 ms of Redis. */
  tendEveryMs: 250,
  tendBatch: 200,
  /** Free units are kept so long for a user who wants more of them than there are; then the users behind are served. */
  groupWaitMs: 30_000,
  /** A line in which no user can be served is closed after so long: a payment that is taken back at once still serves it. */
  lineSettleMs: 2_000,
  /** How often campaigns are started, finished and put into Redis by their schedule. */
  scheduleEveryMs: 1_000,
  /** A campaign is put into Redis again, should it be missing, this long before it opens. */
  preheatMs: 10 * 60_000,
  /** Users in one call of lua/positions.lua: about 1 ms of Redis. */
  positionsBatch: 1_000,
  /**
   * CONTRACT: a position frame at most once a second. A tenth of the sockets has its turn at a time: if all got it at once, ten
   * thousand would keep a promotion waiting for a tenth of a second.
   */
  positionEveryMs: 1_000,
  positionTurns: 10,
  /** A turn may come early when the one before was late; no socket gets a position sooner than this. */
  positionPauseMs: 960,
  /** At 10,000 a second this is one second of work; later requests would wait too long. */
  checkoutsInFlight: 10_000,
  eventLoopLagMs: 500,
  /** Requests begun in one turn of the event loop: about 10 ms, so that answers of Redis are read between them. */
  requestsPerTurn: 100,
  /** As many as connections: everybody may have one request here, whatever others send on theirs. */
  requestsWaiting: 20_000,
  /** Counters are compared this often; a full comparison only when they differ. */
  reconcileEveryMs: 60_000,
  /** How long the comparison waits for Postgres to catch up before what is missing counts. */
  reconcileSettleMs: 5_000,
  /** How long an operator's request waits for the result; the work goes on after it. */
  reconcileAnswerMs: 10_000,
  /** How often campaigns that are over are looked for; a campaign that has nothing to do costs one short script. */
  archiveEveryMs: 5_000,
  /** Of a run that forgets answers: then the next one goes on, and a worker that stops waits for it. */
  archiveRunMs: 2_000,
  /** Those who watched the end ask once more, and are answered by Redis. */
  archiveGraceMs: 30_000,
  /** A user who is recalled to an archived campaign stays at least so long: a purpose may take several calls. */
  archiveRestMs: 60_000,
  /** Entries that Postgres lacks, of all campaigns, which the archive looks through for one of its own: 1 ms of Redis. */
  archiveEntries: 500,
  /** A campaign whose rows differ is added up again after so long: a million rows take a second. */
  archiveDiffersMs: 60_000,
  /** Answers forgotten in one round trip: about 2 ms of Redis, between which others are served. */
  forgetBatch: 500,
  /** People that one statement looks up in an archived campaign: some milliseconds of Postgres. */
  recallGroup: 500,
  /** As many as may check out at once; later requests would wait too long. */
  recallsWaiting: 10_000,
  /** The answer to a key is put back for the repeated request that asks for it, not for others. */
  recalledAnswerMs: 10_000,
  /** Events in one Redis transaction: about 1 ms of Redis. */
  publishBatch: 200,
  /** Events of all batches that are committed within it go out together; a webhook gains nothing by less. */
  publishAfterMs: 100,
  /** Events that wait in memory to be published, some megabytes; beyond it they are read from the outbox. */
  eventsWaiting: 10_000,
  /** Looked at without news of a commit; retries of webhooks are found then. */
  publishEveryMs: 1_000,
  /** Events the stream keeps for readers that were away, about 80 MB; older ones are in the outbox. */
  eventStreamLength: 100_000,
  /** Replays reach back so far; a reader that was away longer needs the redemptions, not their events. */
  outboxKeepMs: 7 * 86_400_000,
  pruneEveryMs: 60_000,
  /** Rows removed by one statement (about 50 ms) and statements in one run: 1.2 million an hour, more than a sale has. */
  pruneBatch: 5_000,
  pruneBatches: 4,
  /** The same for attempts, of which scrapers make more: 12 million an hour. */
  attemptsPruneBatches: 40,
  /** Attempts that wait for Postgres in one API process: some seconds of a busy sale, about 15 MB. */
  attemptsWaiting: 50_000,
  /** Rows of one statement: building it takes about 1 ms, in which no other request is served. */
  attemptsBatchRows: 500,
  attemptsEveryMs: 250,
  /** Part of `stopMs` that may be spent on writing attempts. */
  attemptsStopMs: 1_500,
  /** A receiver that works before it answers should answer first. */
  webhookTimeoutMs: 5_000,
  /** The response body is not used; more than this ends the connection. */
  webhookAnswerBytes: 64 * 1024,
  /** 1 s, 2 s, 4 s … an hour; after a day of failures the endpoint is disabled. */
  webhookRetry: { firstDelayMs: 1_000, maxDelayMs: 3_600_000, giveUpMs: 86_400_000 },
  /** Longer than a delivery with its time limit; a worker that died holds an endpoint up for so long. */
  webhookLeaseMs: 15_000,
  /** Then a run ends and the next interval goes on: a worker that stops waits for it. */
  webhookRunMs: 5_000,
  webhookBatch: 100,
  /** Each is looked at every second. */
  webhookEndpoints: 100,
  /** About 3 GB of Postgres with its indexes; a campaign beyond it should be two. */
  codesPerCampaign: 20_000_000,
  /** Lines of one upload, good and bad: its line numbers stay far below Postgres's integers. */
  codeImportLines: 100_000_000,
  /** A code and a user id have 200; what is longer is no line of ours and is not kept. */
  codeLineBytes: 1_024,
  /** Lines that a job names; the rest is counted. */
  codeJobErrors: 100,
  /** Codes in one transaction: about a second, of which the filters need half anyway (`codeSettleMs`). */
  codeChunk: 50_000,
  /** Then a run ends and its next job goes on: a worker that stops waits for it. */
  codeRunMs: 4_000,
  /** Looked for without a job in Redis; idle for longer than any chunk takes means that its worker died. */
  codeLeftEveryMs: 2_000,
  codeLeftIdleMs: 8_000,
  /** Codes in one Redis message (60 KiB), and in one page read by a filter: 1 ms of an event loop. */
  codeAnnounceCodes: 4_000,
  codePageCodes: 4_000,
  /** A filter asks so often whether it has heard everything, and believes that for so long. */
  codePingEveryMs: 100,
  codeTrustMs: 400,
  codePingGiveUpMs: 3_000,
  /** Between announcing codes and their commit: longer than any filter believes that it has heard everything. */
  codeSettleMs: 500,
  /** One page for a filter, and the wait for chunks that are under way. */
  codePageStatementMs: 10_000,
  /** Uploads and exports of one API process at once; each holds a connection. The next one gets 503. */
  transfers: 4,
  transferMs: 6 * 3_600_000,
  /** A client that neither sends nor takes a byte for so long is gone. */
  transferIdleMs: 30_000,
  /** Terms that one API process remembers, and how old they may be when nothing says their version; about 20 MB. */
  termsKept: 10_000,
  termsFreshMs: 60_000,
  termsPatienceMs: 50,
  /** Failed requests of one caller in a minute from which on they are counted for all processes. */
  guessesUnnoticed: 3,
  oneTimeTokenMs: 5 * 60_000,
  /** How far ahead a hand-over may expire: long enough for a shopper who opens the page before the sale and waits. */
  handOverLifeMs: 3_600_000,
  /** Longer than any refusal takes that asks Redis and Postgres. */
  uniformRefusalMs: 60,
  /** What campaigns say to the guards is read again this often; news of a change comes at once. */
  policiesEveryMs: 5_000,
  /**
   * Failed requests with codes. At five redemptions a minute a user waits 12 s between two; the fifth failure doubles that, each
   * further one again: 24 s, 48 s … 6 min. A proven user waits an hour from the tenth on.
   */
  failuresBeforeWait: 5,
  firstWaitMs: 24_000,
  longestWaitMs: 384_000,
  failuresBeforeBan: 10,
  failureBanMs: 3_600_000,
  failureMemoryMs: 3_600_000,
  /** Long enough for a slow phone, too short to solve in advance. */
  challengeLifeMs: 300_000,
  /** Of a network, in each process: a real app is refused when it was away for too long, and rarely otherwise. Judging one takes 3 ms. */
  wrongProofsPerMinute: 300,
  /** A device that was not seen for so long attests a new key. */
  attestedKeyMs: 30 * 86_400_000,
  /**
   * Tokens for one network in a minute that cost nothing while no campaign enforces its rules: more than a thousand shoppers a second
   * behind one address ask for, less than the network's quota.
   */
  tokensFreeInPeace: 100_000,
  /** Calls of an address are counted up to so many times its limit; beyond that solved ones are not taken out of the count. */
  addressCountedTimes: 5,
  deviceBanMs: 3_600_000,
  /** Rules count accounts over a day. */
  accountsMemoryMs: 86_400_000,
  /** A device with one user so far. A client that invents a device for each call leaves 110 bytes for so long. */
  firstAccountMs: 3_600_000,
  /** Devices that one network adds in an hour in each process; a carrier's has more, and is asked for work by its accounts first. */
  newDevicesPerHour: 1_000,
  /** Devices and networks whose accounts one process remembers where rules only observe. */
  accountsObserved: 50_000,
  /**
   * Promises in a minute that are an attack: a hundred times the mean of the hour before, and more than a launch makes, whose hour
   * before was empty: 20 people for each unit, and 20,000 at least. A campaign may say otherwise.
   */
  velocityFactor: 100,
  velocityFloorPerMinute: 20_000,
  velocityFloorPerUnit: 20,
  velocityEveryMs: 2_000,
  /** Networks whose calls a process counts by itself. */
  callersKept: 100_000,
  /** Redis knows what is on an order for so long after the last code, about 200 bytes each; then Postgres decides alone. */
  orderMemoryMs: 7 * 86_400_000,
  /** Bans and allowances of operators that each API process holds, and as many bans of rules, about 300 bytes each; the oldest go first. */
  bansKept: 100_000,
  /** Bans of rules that one process announces and stores in a second: 20 MB of Redis in the hour for which they last. */
  ruleBansPerSecond: 20,
  /** Those that wait for Postgres in one process: eight minutes of them. */
  ruleBansWaiting: 10_000,
  ruleBansBatch: 500,
  /** How long one that is over can be looked at. */
  ruleBansKeepMs: 30 * 86_400_000,
  /** Callers whose wait after failures is known to a process. */
  pausesKept: 100_000,
  /** News comes at once; this is for what was missed. Changes are read again for so long, since commits may be late. */
  bansSyncEveryMs: 10_000,
  bansChangesMs: 60_000,
  /** An operator logs in once a shift; a browser that is left behind forgets it the same day. */
  operatorSessionMs: 8 * 3_600_000,
  socketPayloadBytes: 4 * 1024,
  /** Frames a client may send within ten seconds; a person and a client library need far fewer. */
  socketFramesPer10s: 30,
  /** Bytes a slow reader may leave in our memory before its position frames are left out. */
  socketBufferedBytes: 64 * 1024,
  socketSubscribeMs: 5_000,
  socketPingMs: 25_000,
  /** How often it is looked which sockets are to be pinged. */
  socketTickMs: 1_000,
  socketsPerProcess: 20_000,
  /** Of one network, a carrier's among them: the rest is for everyone else. */
  socketsPerNetwork: 15_000,
  /** Of one shopper in one sale: tabs and devices, and sockets whose loss was not noticed yet. The oldest goes when one more comes. */
  socketsPerTicket: 10,
  /** Promises that a process keeps until they are persisted, about 500 bytes each; ten seconds at full speed. */
  promisesKept: 100_000,
  /** As many as may check out at once. */
  replicatedWaiting: 20_000,
  /** How long a durable answer waits for Postgres before 503; the promise is kept, the retry gets it. */
  durableWaitMs: 1_500,
  /** How long an operator's response waits for the change to be in Postgres; it is in the journal already. */
  operatorCommitWaitMs: 1_500,
  /** Between losing readiness and closing: a load balancer must have noticed. */
  drainMs: 500,
  /** A stop that takes longer is cut off. */
  stopMs: 12_000,
} as const;
