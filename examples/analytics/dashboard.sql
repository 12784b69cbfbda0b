-- What a dashboard asks of one campaign. {campaign:UUID} is a parameter of the query.

-- name: units_per_minute
SELECT toStartOfMinute(time) AS minute,
       sumIf(qty, type LIKE '%.reserved.v1') AS reserved,
       sumIf(qty, type LIKE '%.redeemed.v1') AS redeemed,
       sumIf(qty, type LIKE '%.expired.v1') AS expired
FROM doorbuster_events FINAL
WHERE campaign_id = {campaign:UUID}
GROUP BY minute
ORDER BY minute;

-- name: funnel
SELECT uniqExactIf(reservation_id, type LIKE '%.reserved.v1') AS reserved,
       uniqExactIf(reservation_id, type LIKE '%.redeemed.v1') AS redeemed,
       uniqExactIf(reservation_id, type LIKE '%.expired.v1' OR type LIKE '%.released.v1') AS given_back,
       uniqExactIf(reservation_id, type LIKE '%.refunded.v1') AS refunded,
       uniqExactIf(reservation_id, type LIKE '%.voided.v1') AS voided
FROM doorbuster_events FINAL
WHERE campaign_id = {campaign:UUID};

-- name: seconds_to_pay
SELECT quantilesExact(0.5, 0.9, 0.99)(paid_after) AS seconds
FROM
(
    SELECT reservation_id,
           dateDiff('millisecond', minIf(time, type LIKE '%.reserved.v1'), minIf(time, type LIKE '%.redeemed.v1')) / 1000
               AS paid_after
    FROM doorbuster_events FINAL
    WHERE campaign_id = {campaign:UUID} AND type LIKE '%.redemption.%'
    GROUP BY reservation_id
    HAVING countIf(type LIKE '%.reserved.v1') > 0 AND countIf(type LIKE '%.redeemed.v1') > 0
);

-- name: devices_with_most_redemptions
SELECT device_fp, uniqExact(reservation_id) AS redemptions, uniqExact(user_id) AS users
FROM doorbuster_events FINAL
WHERE campaign_id = {campaign:UUID} AND type LIKE '%.redeemed.v1' AND device_fp != ''
GROUP BY device_fp
ORDER BY redemptions DESC, device_fp
LIMIT 20;

-- name: paid_twice
SELECT time, order_id, user_id, payment_ref, JSONExtractString(data, 'already_paid_by') AS already_paid_by
FROM doorbuster_events FINAL
WHERE campaign_id = {campaign:UUID} AND type = 'dev.doorbuster.payment.duplicated.v1'
ORDER BY time;
