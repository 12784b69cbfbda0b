-- Events for analysis. An event that comes again replaces itself: ReplacingMergeTree keeps one row for each sorting key,
-- which ends with the id of the event. Queries read with FINAL, so that repetitions not merged yet do not count.
CREATE TABLE IF NOT EXISTS doorbuster_events
(
    campaign_id UUID,
    time DateTime64(3, 'UTC'),
    id UUID,
    type LowCardinality(String),
    subject String,
    product_id LowCardinality(String),
    reservation_id Nullable(UUID),
    user_id String,
    order_id String,
    qty UInt32,
    device_fp String,
    payment_ref String,
    reason LowCardinality(String),
    data String CODEC(ZSTD(3))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(time)
ORDER BY (campaign_id, time, id)
