-- A cart for each order. Money is a whole number of minor units. The discount is always that of `cart_reservations`.
CREATE TABLE IF NOT EXISTS carts
(
    order_id text PRIMARY KEY,
    currency text,
    subtotal bigint NOT NULL DEFAULT 0 CHECK (subtotal >= 0),
    discount bigint NOT NULL DEFAULT 0 CHECK (discount BETWEEN 0 AND subtotal),
    free_shipping boolean NOT NULL DEFAULT false,
    total bigint GENERATED ALWAYS AS (subtotal - discount) STORED
);

-- What events have said about each reservation. Its discount is null until it is redeemed, and in force until it is
-- taken back.
CREATE TABLE IF NOT EXISTS cart_reservations
(
    reservation_id uuid PRIMARY KEY,
    order_id text NOT NULL REFERENCES carts,
    qty integer NOT NULL,
    discount jsonb,
    taken_back boolean NOT NULL
);
CREATE INDEX IF NOT EXISTS cart_reservations_of_order ON cart_reservations (order_id);
