/**
 * All limits with their reasons, by the part that they bound. Operators change settings in the environment
 * (environment.ts); these are properties of the design.
 */
export const LIMITS = {
  http: {
    /** A larger body is refused with 413. */
    bodyBytes: 16 * 1024,
    /** Node's default is 16 KiB; a ticket, a JWT and the usual headers fit into half of it. */
    headerBytes: 16 * 1024,
    /** A client that takes longer to send its headers is slow on purpose. */
    headersTimeoutMs: 10_000,
    /** For the whole request. The largest body takes milliseconds on a working connection. */
    requestTimeoutMs: 15_000,
    /** How often Node checks these two limits. Its default of 30 s would triple them. */
    connectionCheckMs: 1_000,
    /** A connection on which no byte moved for this long is closed: its client is gone or holds memory on purpose. */
    idleTimeoutMs: 30_000,
    /**
     * Longer than the usual 60 s idle timeout of load balancers; otherwise they reuse connections that we have already
     * closed.
     */
    keepAliveTimeoutMs: 65_000,
    /** Keep-alive when there is little room for connections. */
    keepAliveCrowdedMs: 5_000,
    /** Connections of one process. An idle one takes some KiB. */
    connections: 20_000,
    /**
     * Connections that the kernel keeps until they are accepted, one in each turn. Without room there, a client waits
     * for a second before it tries again. Linux allows 4,096 (`net.core.somaxconn`).
     */
    connectionBacklog: 4_096,
    /** Connections that are closed at once for new ones, when there is no room. */
    connectionsClosed: 200,
    /** Descriptors for the engines, the operators' port and files. */
    descriptorsReserved: 500,
    /**
     * Requests of one connection that are served at once. Further pipelined requests wait, and the connection is not
     * read meanwhile.
     */
    requestsPerConnection: 8,
    /**
     * Requests started in one turn of the event loop, and the time after which none is: replies of Redis are read in
     * between. The turns go round the networks that wait. One connection is accepted in each turn, so turns are shorter
     * while there are any. `inService`: of one network while others have requests too, because they wait for it in
     * Redis.
     */
    requestsPerTurn: { requests: 100, ms: 5, accepting: { requests: 1, ms: 1 }, inService: 32 },
    /** Requests of a network that wait for a turn, without reading its other connections while others have requests. */
    requestsRead: 16,
    /**
     * As many as connections, so that each may have one request waiting. Beyond it, a network has its share of them.
     */
    requestsWaiting: 20_000,
    /**
     * Large documents (`/metrics`, `/docs`, `/openapi.json`) for one network in ten seconds: far more than scrapers and
     * readers need.
     */
    documentsPer10s: 2_000,
    /** One second of work at 10,000 checkouts a second; further requests would wait too long. */
    checkoutsInFlight: 10_000,
    eventLoopLagMs: 500,
  },
  redis: {
    /** One call to Redis. Every request is answered within 2 s, so Redis gets less. */
    commandMs: 1_000,
    /**
     * When ioredis gives up on a command: later than `commandMs`, since a busy process may not have read the reply yet.
     */
    silenceMs: 1_500,
    connectMs: 1_500,
    /**
     * Shares of Redis's `maxmemory`. Above the first new claims are refused: at 100 % Redis refuses every write, and
     * payments, releases and the jobs that empty the journal need the rest. Below the second they are accepted again.
     */
    memory: { refuseAbove: 0.9, acceptBelow: 0.88 },
    /**
     * How long one WAIT blocks its connection; with too few replicas the next round follows until `replicationWaitMs`.
     */
    replicationRoundMs: 100,
    /** How long a response waits for replicas before 503. The promise is kept, and a retry returns it. */
    replicationWaitMs: 500,
    /** As many as checkouts in flight. */
    replicatedWaiting: 20_000,
  },
  postgres: {
    /** One statement of the API. Batches of the worker have limits of their own. */
    statementMs: 1_500,
    batchStatementMs: 30_000,
    /** A statement of a batch takes milliseconds. One that hangs is repeated with half of the batch. */
    persistStatementMs: 3_000,
    connectMs: 1_500,
    /**
     * Statements of an API process that fail or time out in a row before it asks Postgres nothing more, and for how
     * long.
     */
    breakerFailures: 5,
    breakerOpenMs: 1_000,
    /**
     * How long a read waits until the replica (DATABASE_READ_URL) has what the primary had. Then the primary is read.
     */
    replicaLookMs: 1_000,
    replicaWaitMs: 1_000,
    /** Connections of one API process to the replica for pages and redemptions; exports of codes have `transfers`. */
    replicaReads: 4,
    /** How long a replica that was away or behind is not asked again. */
    replicaAwayMs: 5_000,
  },
  commands: {
    /**
     * Connecting of an operator's command, to Redis as to Postgres. Commands are needed when machines are overloaded.
     */
    connectMs: 10_000,
  },
  claims: {
    /** Checkouts of one device in any second; further ones get 429. */
    deviceQuota: 20,
    deviceWindowMs: 1_000,
    /** Promises to one user in one campaign, counted by each process; further new idempotency keys get 429. */
    placeCalls: 60,
    placeWindowMs: 600_000,
    oneTimeTokenMs: 5 * 60_000,
    /**
     * How long Redis keeps the codes of an order after the last one, about 200 bytes each. Later Postgres alone
     * decides.
     */
    orderMemoryMs: 7 * 86_400_000,
    /** How long a durable response waits for Postgres before 503. The promise is kept, and a retry returns it. */
    durableWaitMs: 1_500,
    /** How long an operator's response waits for its commit. The change is in the journal already. */
    operatorCommitWaitMs: 1_500,
    /** Promises that a process keeps until they are persisted, about 500 bytes each: ten seconds at full speed. */
    promisesKept: 100_000,
    /** Terms that one API process caches (about 20 MB), and how old they may be where the version is not known. */
    termsKept: 10_000,
    termsFreshMs: 60_000,
    /** The same where terms come from a replica, which may get a change after it was announced. */
    termsFreshOfReplicaMs: 1_000,
    termsPatienceMs: 50,
  },
  persist: {
    /**
     * Journal entries in one Postgres transaction. With 500 a row costs 3 µs; more saves nothing and delays durable
     * responses.
     */
    batchEntries: 500,
    /**
     * Least time between two batches, unless a response waits for the commit. At 5,000 promises a second it gathers 250
     * entries.
     */
    gatherMs: 50,
    /** How long a job of the queue `persist` drains before the next one goes on, and how long it waits for entries. */
    drainRunMs: 5_000,
    drainIdleMs: 2_000,
    /** After this time without a commit a worker persists without a job, and then at most every `stuckRetryMs`. */
    stuckAfterMs: 3_000,
    stuckRetryMs: 5_000,
  },
  jobs: {
    /** A queue with as many jobs takes no more. Their work is found again by sweeps. */
    queueJobs: 1_000,
    /** How often a job that is added again and again is checked. It is lost if parts of its queue were deleted. */
    checkJobEveryMs: 4_000,
    /** How often campaigns are opened, ended and loaded into Redis by their schedule. */
    scheduleEveryMs: 1_000,
    /** How long before its opening a campaign that is missing in Redis is loaded again. */
    preheatMs: 10 * 60_000,
    /** How often the counters of Redis and Postgres are compared. Rows are compared only when the counters differ. */
    reconcileEveryMs: 60_000,
    /** How long an operator's request waits for the result. The comparison goes on after that. */
    reconcileAnswerMs: 10_000,
    /**
     * How often campaigns are looked for whose minutes are not counted, and how long one run counts. A step of this
     * many rows keeps the journal's writers waiting for about 50 ms.
     */
    minutesEveryMs: 10_000,
    minutesRunMs: 4_000,
    minutesBatch: 2_000,
  },
  line: {
    /** Reservations ended by one script call. */
    sweepBatch: 100,
    /** Users promoted by one script call, which blocks Redis for 2 ms at most. Larger batches save nothing. */
    promoteBatch: 50,
    /**
     * How often each worker checks what is overdue. A reservation expires later than its deadline by this at most, plus
     * one job and one batch.
     */
    deadlinesEveryMs: 250,
    /** A worker expires reservations without a job if they are overdue by this. */
    overdueMs: 1_500,
    /** Users of each kind in one call that maintains a line: about 2 ms of Redis. */
    tendBatch: 200,
    /** How long free units are kept for a user who wants more units than are free; then the users behind are served. */
    groupWaitMs: 30_000,
    /**
     * A line that can no longer be served is closed after this time, so that a payment refunded at once still serves
     * it.
     */
    lineSettleMs: 2_000,
    /** The same in an installation that is one of several regions: units of another one may still come. */
    lineSettleOfRegionsMs: 15_000,
    /** How old the standing of a waiting user may be in the response of an overloaded process. */
    standingKeptMs: 5_000,
    standingsKept: 10_000,
  },
  buckets: {
    /** How often the free units of a divided campaign are assigned to its line. */
    roundEveryMs: 20,
    /** How long a process waits for the commit of units that move between buckets; the next round completes them. */
    transferCommitMs: 2_000,
    /**
     * How long a checkout in a divided campaign waits for units of other buckets. Then it gets 503, and a retry goes
     * on.
     */
    claimMs: 1_000,
    /**
     * How long no unit is assigned while a bucket cannot be reached: longer than a failover. Afterwards the line goes
     * on without the users of that bucket, who keep their numbers.
     */
    awayMs: 10_000,
    /** How old the positions in the line of a divided campaign may be. */
    placesFreshMs: 250,
  },
  sockets: {
    payloadBytes: 4 * 1024,
    /** Frames a client may send within ten seconds; a person and a client library need far fewer. */
    framesPer10s: 30,
    /** Unsent bytes of a slow reader beyond which its position frames are skipped. */
    bufferedBytes: 64 * 1024,
    subscribeMs: 5_000,
    pingMs: 25_000,
    /** How often sockets that are due for a ping are looked for. */
    tickMs: 1_000,
    /** A client that asked for heartbeats gets a frame at least this often, plus one tick. */
    heartbeatMs: 5_000,
    perProcess: 20_000,
    /** Sockets of one network, also of a mobile carrier; the rest is for other networks. */
    perNetwork: 15_000,
    /**
     * Sockets of one shopper in one sale: tabs, devices and lost connections not noticed yet. One more closes the
     * oldest.
     */
    perTicket: 10,
    /** Users in one call of lua/positions.lua: about 1 ms of Redis. */
    positionsBatch: 1_000,
    /**
     * A socket gets a position frame at most once a second. A tenth of the sockets is served at a time, since 10,000
     * frames at once would delay a promotion by a tenth of a second.
     */
    positionEveryMs: 1_000,
    /** How often a socket of an overloaded process gets one. */
    positionEveryOverloadedMs: 10_000,
    positionTurns: 10,
    /** Least time between two position frames of a socket, also when the previous tenth was served late. */
    positionPauseMs: 960,
  },
  archive: {
    /** How often ended campaigns are looked for. One with nothing to archive costs one short script. */
    everyMs: 5_000,
    /** One run that removes idempotency records; the next run continues. A worker that stops waits for the run. */
    runMs: 2_000,
    /** After the end of a campaign, users who watched it still get their last status from Redis for this time. */
    graceMs: 30_000,
    /** A user restored to an archived campaign stays in Redis for this time, since clients often make several calls. */
    restMs: 60_000,
    /** Unpersisted entries of all campaigns among which the archiver looks for those of its campaign: 1 ms of Redis. */
    entries: 500,
    /** How soon the rows of a campaign that differs are summed again. A million rows take a second. */
    differsMs: 60_000,
    /** Idempotency records removed in one round trip: about 2 ms of Redis. */
    forgetBatch: 500,
    /** Users of archived campaigns that one statement looks up: some milliseconds of Postgres. */
    recallGroup: 500,
    /** As many as checkouts in flight; further requests would wait too long. */
    recallsWaiting: 10_000,
    /** How long an idempotency record that was restored for a repeated request stays in Redis. */
    recalledAnswerMs: 10_000,
  },
  events: {
    /** Events in one Redis transaction: about 1 ms of Redis. */
    publishBatch: 200,
    /** Events of batches committed within this time are published together. Webhooks gain nothing from less. */
    publishAfterMs: 100,
    /** How often the outbox is read without a notification of a commit. Due retries of webhooks are found then. */
    publishEveryMs: 2_000,
    /** How long the removal of users waits until the events written before are in the stream. */
    publishWaitMs: 5_000,
    /** Events waiting in memory to be published, some megabytes. Further ones are read from the outbox. */
    waiting: 10_000,
    /** Events kept in the stream for readers that were away, about 80 MB. Older ones are in the outbox. */
    streamLength: 100_000,
    /** How far back events can be replayed. A reader that was away longer needs the redemptions, not their events. */
    outboxKeepMs: 7 * 86_400_000,
  },
  webhooks: {
    /** Receivers should respond first and work afterwards. */
    timeoutMs: 5_000,
    /** The response body is ignored. A larger one ends the connection. */
    answerBytes: 64 * 1024,
    /** 1 s, 2 s, 4 s … an hour; after a day of failures the endpoint is disabled. */
    retry: { firstDelayMs: 1_000, maxDelayMs: 3_600_000, giveUpMs: 86_400_000 },
    /** Longer than a delivery may take. If a worker dies, its endpoint waits this long for another worker. */
    leaseMs: 15_000,
    /** Longest run; the next one continues. A worker that stops waits for the run. */
    runMs: 5_000,
    batch: 100,
    /** Parked events of one endpoint. When there are more, its other events wait too. */
    parkedEvents: 1_000,
    /** Delivered attempts, and as many failed ones, that are kept of each endpoint: about 300 bytes each. */
    attemptsKept: 1_000,
    /** Test events that an API process sends in a minute. Each may occupy a connection until the time limit. */
    testsPerMinute: 60,
    /** Every endpoint is checked every second. */
    endpoints: 100,
  },
  push: {
    /** Browsers of one place in line that get notifications; one more replaces the oldest. */
    perPlace: 3,
    /** Subscriptions of one place in a minute: a page sends one. */
    callsPerMinute: 20,
    /** How often events are read for notifications. The hold runs meanwhile. */
    everyMs: 500,
    /** Events, and messages, of one statement. */
    batch: 500,
    /** Messages that one worker sends at once; with 100 ms each, 160 a second. Encrypting one takes 1 ms. */
    atOnce: 16,
    timeoutMs: 5_000,
    /** 1 s, 2 s, 4 s … between the attempts of a message. A promotion has the time of its hold, minutes mostly. */
    retry: { attempts: 6, firstDelayMs: 1_000 },
    /** Longer than an attempt may take. If a worker dies, its messages wait this long for another worker. */
    leaseMs: 15_000,
    /** Longest run; the next one continues. A worker that stops waits for the run. */
    runMs: 4_000,
    /** How long a push service keeps a message that a line has closed. */
    closedTtlMs: 4 * 3_600_000,
    /** A place may have a subscription this long before Postgres has it, while Postgres is away. */
    settleMs: 3_600_000,
    /** How long a subscription may wait for the turn of its user. */
    keepMs: 30 * 86_400_000,
  },
  kafka: {
    /** Events in one request to Kafka: below half of the 1 MiB that a broker takes by default. */
    batch: 500,
    /** A broker that is away is noticed within this time. The client's default of 5 s made a restart cost 20 s. */
    connectMs: 1_000,
    requestMs: 5_000,
    /** Connecting, the topics and one batch, with several brokers away. */
    sendMs: 12_000,
    /** Longer than `sendMs` and a delay. If a worker dies, Kafka waits this long for another worker. */
    leaseMs: 20_000,
    /** The longest delay bounds how long Kafka waits for events after its return. */
    retry: { firstDelayMs: 100, maxDelayMs: 5_000 },
    /** Part of `shutdown.stopMs` that may be spent on the batch under way. */
    stopMs: 1_500,
  },
  payments: {
    /** A body of a payment provider. Those of Stripe have up to some 20 KB. */
    bodyBytes: 256 * 1024,
    /** The signature of Midtrans is inside of the body, so forged ones are parsed as well. */
    midtransBodyBytes: 16 * 1024,
    /** Webhooks of payment providers with a wrong signature from one network in a minute, in each process. */
    wrongWebhooksPerMinute: 300,
    /** How often payments of unknown reservations are tried again. */
    everyMs: 60_000,
    /** How long events of payment providers are kept. Stripe sends an event again for three days. */
    eventsBatch: 10_000,
    /** For how many days they are, and how many are read at once. */
    unknownDays: 7,
    unknownBatch: 200,
    /** How long one run goes on with further ones. */
    unknownRunMs: 20_000,
  },
  codes: {
    /** About 3 GB of Postgres with its indexes; a campaign beyond it should be two. */
    perCampaign: 20_000_000,
    /** Lines of one upload, good and bad: its line numbers stay far below Postgres's integers. */
    importLines: 100_000_000,
    /** A code and a user id have 200 bytes. Longer lines are refused without being stored. */
    lineBytes: 1_024,
    /** Refused lines that a job reports; further ones are counted. */
    jobErrors: 100,
    /** Codes in one transaction: about a second, half of which is `settleMs`. */
    chunk: 50_000,
    /** Longest run of a job; its next run continues. A worker that stops waits for the run. */
    runMs: 4_000,
    /**
     * How often unfinished jobs are looked for in Postgres. A job that is idle longer than any chunk takes has lost its
     * worker.
     */
    leftEveryMs: 5_000,
    leftIdleMs: 8_000,
    /** Codes in one Redis message (60 KiB): 1 ms of an event loop. */
    announced: 4_000,
    /** Codes that a filter reads by one COPY: 0.1 s with pauses, so that a load that was interrupted repeats little. */
    perRange: 25_000,
    /**
     * How often a filter checks that it has received every code, how often if it was not used for that long, and how
     * long it relies on a check.
     */
    pingEveryMs: 100,
    pingIdleMs: 2_000,
    trustMs: 400,
    pingGiveUpMs: 3_000,
    /** Between the announcement of codes and their commit: longer than a filter relies on its last check. */
    settleMs: 500,
    /** One range of codes for a filter, including the wait for chunks that are being written. */
    rangeStatementMs: 10_000,
    /** Uploads and exports of one API process at once; each holds a connection. The next one gets 503. */
    transfers: 4,
    transferMs: 6 * 3_600_000,
    /** A transfer on which no byte moved for this long is ended. */
    transferIdleMs: 30_000,
  },
  attempts: {
    /** Attempts waiting for Postgres in one API process: some seconds of a busy sale, about 15 MB. */
    waiting: 50_000,
    /** Rows of one statement. Building it blocks the event loop for about 1 ms. */
    batchRows: 500,
    everyMs: 250,
    /**
     * Rows and log lines of attempts of one network in a minute, in each process, and those of valid checks among them.
     * Further attempts are counted. At this rate one address fills 0.9 GB a day. It is the address of the shop where
     * all shoppers come through its server.
     */
    perNetworkMinute: { rows: 3_000, valid: 300 },
    /** Part of `shutdown.stopMs` that may be spent on writing attempts. */
    stopMs: 1_500,
  },
  abuse: {
    /** After this many failures in a minute a caller is counted in all processes. */
    guessesUnnoticed: 3,
    /** The same where validation and redemption are at different processes, so that a caller is counted as early. */
    guessesUnnoticedOfRole: 2,
    /** Longer than a refusal takes that asks both Redis and Postgres. */
    uniformRefusalMs: 60,
    /** How often the policies of campaigns are read again. Changes are also announced at once. */
    policiesEveryMs: 5_000,
    /**
     * Failed requests with codes. At five redemptions a minute a user waits 12 s between two; the fifth failure doubles
     * that, each further one again: 24 s, 48 s … 6 min. A proven user waits an hour from the tenth on.
     */
    failuresBeforeWait: 5,
    firstWaitMs: 24_000,
    longestWaitMs: 384_000,
    failuresBeforeBan: 10,
    failureBanMs: 3_600_000,
    failureMemoryMs: 3_600_000,
    /**
     * Tokens for one network in a minute without a proof of work while no campaign enforces its rules: more than a
     * thousand shoppers a second behind one address need, and less than the network's quota.
     */
    tokensFreeInPeace: 100_000,
    /**
     * Calls of an address are counted up to this many times its limit. Beyond it solved challenges no longer lower the
     * count.
     */
    addressCountedTimes: 5,
    deviceBanMs: 3_600_000,
    /** Rules count accounts over a day. */
    accountsMemoryMs: 86_400_000,
    /**
     * How long a device with one user is remembered. A client that invents a device for each call leaves 110 bytes
     * each.
     */
    firstAccountMs: 3_600_000,
    /**
     * New devices of one network in an hour, in each process. A carrier's network has more, and its number of accounts
     * asks for work first.
     */
    newDevicesPerHour: 1_000,
    /** Devices and networks whose accounts one process counts where rules only observe. */
    accountsObserved: 50_000,
    /** Attempts at a campaign per minute and process, above which claims need a proof of work if rules are enforced. */
    surgeAttemptsPerMinute: 20_000,
    /** Networks whose calls one process counts in its memory. */
    callersKept: 100_000,
  },
  bans: {
    /**
     * Bans and allowances by operators that each API process holds, and as many bans by rules, about 300 bytes each;
     * the oldest are dropped first.
     */
    kept: 100_000,
    /**
     * Bans by rules that one process announces and stores in a second: 20 MB of Redis in the hour for which they last.
     */
    ruleBansPerSecond: 20,
    /** Bans by rules waiting for Postgres in one process: eight minutes' worth. */
    ruleBansWaiting: 10_000,
    ruleBansBatch: 500,
    /** Callers in a cooldown after failures that one process remembers. */
    pausesKept: 100_000,
    /**
     * Bans are announced at once; this finds those that were missed. Changes of this period are read again, since
     * commits may be late.
     */
    syncEveryMs: 10_000,
    changesMs: 60_000,
  },
  attestation: {
    /** Long enough for a slow phone, too short to solve in advance. */
    challengeLifeMs: 300_000,
    /**
     * Of a network, in each process: a real app is refused when it was away for too long, and rarely otherwise. Judging
     * one takes 3 ms.
     */
    wrongProofsPerMinute: 300,
    /** A device that was not seen for this long must attest a new key. */
    attestedKeyMs: 30 * 86_400_000,
  },
  auth: {
    /** How far ahead a hand-over may expire: long enough for a shopper who opens the page before the sale and waits. */
    handOverLifeMs: 3_600_000,
    /** An operator logs in once a shift. An abandoned browser session ends the same day. */
    operatorSessionMs: 8 * 3_600_000,
    /** A session of OpenID Connect ends when it was not used for this time. A page in a visible tab uses it. */
    operatorIdleMs: 3_600_000,
    /** How long a process uses such a session without reading it again: how long an ended one can still be used. */
    sessionCachedMs: 1_000,
    sessionsCached: 1_000,
    /** How often the use of a session is written. */
    sessionSeenEveryMs: 60_000,
    /** Sessions in one list. */
    sessionsListed: 500,
    /** From the redirect to the issuer to the return. */
    loginMs: 10 * 60_000,
    /** Longest call to the issuer, and how long after a failed discovery it is not tried again. */
    oidcCallMs: 5_000,
    oidcRetryMs: 2_000,
    /** Logins that one network may begin in a minute, in each API process. */
    loginsPerMinute: 60,
    /** How often the browser may return with one login: a second time when its user reloads the page. */
    returnsPerLogin: 3,
    /** Created keys in force, which every process has in its memory and reads again every second. */
    apiKeys: 200,
    /** How often each API process reads the created keys, about 0.5 ms: how long a revoked key can still be used. */
    apiKeysEveryMs: 1_000,
    /** How long the keys of the last read stay in force while Postgres is away. */
    apiKeysKeptMs: 600_000,
    /** How often the use of a key is written. */
    apiKeyUseEveryMs: 60_000,
    /** Keys in one list. */
    apiKeysListed: 1_000,
  },
  regions: {
    /** How often a process asks the other regions for their epochs and new campaigns, and reads its own. */
    beatMs: 1_000,
    /** One try of a call to another region, and of a beat. A round trip around the world takes 0.3 s. */
    callMs: 1_500,
    /** Tries of one call. The owner answers a repeated call as the first one, so a lost response is asked for again. */
    callTries: 3,
    /** Calls in flight to one region, in each process; with 80 ms to a round trip, 3,200 a second. Others get 503. */
    callsInFlight: 256,
    /** A response between regions: of a beat with as many new campaigns, of about 300 bytes each. */
    responseBytes: 1_048_576,
    campaignsPerBeat: 1_000,
    /** Campaigns of these last numbers are asked for again, because a lower number may be committed later. */
    campaignsAgain: 50,
    /** A transfer of units between regions that no process has worked on for so long is gone on with by any. */
    transferIdleMs: 3_000,
    transfersAtOnce: 20,
    /**
     * Units that are on their way for so long are left to an operator. So a taker may forget a transfer afterwards: it
     * would add the units twice if the giver asked again. The taker begins its side in this time. So both sides of
     * younger transfers exist, and the ledger compares these only.
     */
    transferGiveUpMs: 30 * 86_400_000,
    /** Twice that. One transfer a second all the time is 1.5 GB. */
    transfersKeepMs: 60 * 86_400_000,
    /**
     * How often free units of a product that several regions sell go to where users wait for them. A line without units
     * is closed after `line.lineSettleOfRegionsMs` only.
     */
    balanceMs: 1_000,
    /** How long a region counts on the units that another one had at the last look. */
    elsewhereMs: 5_000,
    /** A region keeps the units that it sells in this time at its present pace, and asks for them. */
    balanceAheadSeconds: 10,
    /**
     * Decisions of other regions that wait in one process to be written to Postgres: about 400 bytes each, 20 MB, and
     * 15 seconds of the calls that one region can take (`callsInFlight`). Beyond it, the oldest are counted only.
     */
    acknowledgementsWaiting: 50_000,
    /** Rows of one statement. What a killed process had not written within `acknowledgementsEveryMs` is lost. */
    acknowledgementsBatchRows: 500,
    acknowledgementsEveryMs: 100,
    /** Decisions of which a process does not record replays again: about 200 bytes each, 10 MB. */
    acknowledgementsKnown: 50_000,
    /** Part of `shutdown.stopMs` that may be spent on writing them. */
    acknowledgementsStopMs: 1_500,
    /**
     * Longer than the age of a backup from which a lost region is restored. A row takes about 250 bytes with its index:
     * 100 a second all day are 2.2 GB a day, a sale of three million with one code in ten from elsewhere is 75 MB.
     */
    acknowledgementsKeepMs: 7 * 86_400_000,
    /** Of one call. 300 bytes each in the response, 0.3 MB. */
    acknowledgementsAtOnce: 1_000,
    /** Products in one question about the units of another region. */
    productsAtOnce: 100,
  },
  retention: {
    pruneEveryMs: 60_000,
    /** Rows removed by one statement (about 50 ms), and statements in one run: 1.2 million rows an hour. */
    pruneBatch: 5_000,
    pruneBatches: 4,
    /** Statements in one run for attempts, of which scrapers make more: 12 million rows an hour. */
    attemptsPruneBatches: 40,
    /** How long an ended ban by a rule is kept. */
    ruleBansKeepMs: 30 * 86_400_000,
    /**
     * Removal of the users of closed campaigns: users in one batch, and how long one run may take. A user takes some
     * ten statements.
     */
    users: 100,
    runMs: 10_000,
  },
  erasures: {
    /** How often erasures are looked for that were not finished, or whose request could not wake a worker. */
    everyMs: 5_000,
    /** How long one run erases users. The next one goes on. */
    runMs: 10_000,
    /** Pause before an erasure is tried again that failed or was not finished. */
    retryMs: 5_000,
    /** Pause before an erasure is looked at again that waits for the user: a tenth of its age, within these bounds. */
    wait: { leastMs: 15_000, mostMs: 3_600_000 },
    /** Pause of an erasure before it looks again for attempts, which processes write every `attempts.everyMs`. */
    settleMs: 1_000,
  },
  tracing: {
    /** Spans that wait to be sent, some 2 KB each. Further ones are dropped and counted. */
    spansWaiting: 2_048,
    spansPerExport: 512,
    spanExportEveryMs: 1_000,
    /** One export with its retries. */
    spanExportMs: 5_000,
    /** Members of a batch that get a span; the default limit of OpenTelemetry for the links of a span. */
    spansPerBatch: 128,
    /** Part of `shutdown.stopMs` that may be spent on sending spans. */
    spanStopMs: 2_000,
  },
  metrics: {
    /**
     * Campaigns of a shard whose status a scrape of /metrics reads, every 10 s at most, and live ones whose counters it
     * reads, once a second at most; the newest. A call costs Redis about 2 µs.
     */
    liveCampaigns: { listed: 2_000, live: 500 },
  },
  shutdown: {
    /** Between failing `/readyz` and closing, so that load balancers notice. */
    drainMs: 500,
    /** How long a process waits until Postgres has what it acknowledged. A worker that hangs is replaced within 5 s. */
    promisesMs: 6_000,
    /** A stop that takes longer ends by force. */
    stopMs: 12_000,
  },
} as const;
