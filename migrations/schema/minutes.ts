const COUNTS = ['reserved', 'joined', 'promoted', 'paid', 'paid_units', 'expired', 'released', 'refunded'];
/** The counts that follow from redemptions; `joined` follows from the line. */
const OF_REDEMPTIONS = COUNTS.filter((name) => name !== 'joined');

const TABLES = `
  create table sale_minutes (
    campaign_id uuid not null references campaigns on delete cascade,
    minute timestamptz not null,
    ${COUNTS.map((name) => `${name} bigint not null default 0,`).join('\n    ')}
    primary key (campaign_id, minute)
  ) with (fillfactor = 50);
  comment on table sale_minutes is 'what happened in each minute of a sale; kept by triggers on redemptions and waiting_tickets';
  comment on column sale_minutes.reserved is 'reservations without the line; voided reservations count nowhere';
  comment on column sale_minutes.paid_units is 'units when they were paid, also those that were refunded later';
  comment on column sale_minutes.expired is 'reservations whose time to pay ran out, also if a late payment took a unit again';

  create table sale_minute_waits (
    campaign_id uuid not null references campaigns on delete cascade,
    minute timestamptz not null,
    wait_class smallint not null,
    users bigint not null,
    primary key (campaign_id, minute, wait_class)
  ) with (fillfactor = 50);
  comment on table sale_minute_waits is 'how long the users waited who were promoted in a minute, by classes (wait_class)';

  create table sale_minutes_pending (
    campaign_id uuid primary key references campaigns on delete cascade,
    redemptions_upto uuid not null default '00000000-0000-0000-0000-000000000000',
    tickets_upto bigint not null default -1
  );
  comment on table sale_minutes_pending is 'campaigns whose minutes do not count all rows yet';
  comment on column sale_minutes_pending.redemptions_upto is 'rows up to this id are counted';
  comment on column sale_minutes_pending.tickets_upto is 'rows up to this number are counted';
`;

/** The classes of waits grow by 5 %, so the middle of a class differs from each of its waits by at most 2.5 %. */
const DEFINITIONS = `
  create function wait_class(seconds double precision) returns smallint language sql immutable parallel safe as $$
    select round(ln(1 + least(greatest(seconds, 0), 1e12) * 1000) / ln(1.05::float8))::smallint $$;
  comment on function wait_class is 'the class of a wait: class n has the waits around 1.05^n - 1 ms';
  create function wait_seconds(class smallint) returns double precision language sql immutable parallel safe as $$
    select (power(1.05::float8, class) - 1) / 1000 $$;
  comment on function wait_seconds is 'the middle of a class of waits';

  create function redemption_minutes(status text, in_line boolean, reacquired boolean, reserved timestamptz,
    redeemed timestamptz, released timestamptz, refunded timestamptz, reservations bigint, units bigint)
  returns table (minute timestamptz, ${OF_REDEMPTIONS.map((name) => `${name} bigint`).join(', ')})
  language sql immutable parallel safe as $$
    select e.at, ${OF_REDEMPTIONS.map((name) => `e.${name}`).join(', ')}
    from (values
      ($4, case when $2 then 0 else $8 end, case when $2 then $8 else 0 end, 0, 0, 0, 0, 0),
      ($5, 0, 0, $8, $9, 0, 0, 0),
      ($6, 0, 0, 0, 0, case when $1 = 'expired' or $3 then $8 else 0 end,
        case when $1 = 'expired' or $3 then 0 else $8 end, 0),
      ($7, 0, 0, 0, 0, 0, 0, $8)
    ) as e(at, ${OF_REDEMPTIONS.join(', ')})
    where e.at is not null and $1 <> 'voided' $$;
  comment on function redemption_minutes is
    'what reservations count in which minutes, if their status and the minutes of their times are the same';
`;

/**
 * The counts of rows, by campaign and minute. Rows that happened in the same minutes are grouped first: a batch has few
 * such groups, and this costs a tenth of what a look at each time of each row would.
 */
const minutesOf = (rows: string, where: string, sign = '') => `
        select g.campaign_id, m.minute, ${OF_REDEMPTIONS.map((name) => `sum(m.${name}) as ${name}`).join(', ')}
        from (${groupsOf(rows, where, sign)}) g cross join lateral redemption_minutes(g.status, g.in_line, g.reacquired,
          g.reserved, g.redeemed, g.released, g.refunded, g.reservations, g.units) m group by 1, 2`;
const groupsOf = (rows: string, where: string, sign = '') => `
          select r.campaign_id, r.status, r.line_no is not null as in_line, r.reacquired,
            ${['reserved', 'redeemed', 'released', 'refunded'].map((name) => `date_trunc('minute', r.${name}_at) as ${name}`).join(', ')},
            ${sign}count(*) as reservations, ${sign}sum(r.qty + r.refunded_qty) as units
          from ${rows} r where ${where} group by 1, 2, 3, 4, 5, 6, 7, 8`;
/** Adds rows of (campaign_id, minute and counts), in an order that is the same in every transaction. */
const addMinutes = (names: readonly string[], from: string) => `
      insert into sale_minutes as s (campaign_id, minute, ${names.join(', ')})
      select campaign_id, minute, ${names.join(', ')} from (${from}) d
      where ${names.map((name) => `${name} <> 0`).join(' or ')} order by campaign_id, minute
      on conflict (campaign_id, minute) do update set ${names.map((name) => `${name} = s.${name} + excluded.${name}`).join(', ')}`;
const addWaits = (from: string) => `
      insert into sale_minute_waits as s (campaign_id, minute, wait_class, users)
      select campaign_id, minute, wait_class, users from (${from}) d where users <> 0 order by campaign_id, minute, wait_class
      on conflict (campaign_id, minute, wait_class) do update set users = s.users + excluded.users`;
/** The waits of promoted users among rows of redemptions. A row of the line is written before its redemption. */
const waitsOf = (rows: string, sign: string, where: string) => `
        select r.campaign_id, date_trunc('minute', r.reserved_at) as minute,
          wait_class(extract(epoch from r.reserved_at - t.joined_at)::float8) as wait_class, ${sign}1 as users
        from ${rows} r join waiting_tickets t on t.campaign_id = r.campaign_id and t.line_no = r.line_no
        where r.line_no is not null and r.status <> 'voided' and ${where}`;
/** Which rows a trigger counts: all, or while campaigns are pending, those that the worker has counted already. */
type Scope = (row: string, id: 'redemption_id' | 'line_no') => string;
const ALL: Scope = () => 'true';
const COUNTED: Scope = (row, id) => `coalesce(${row}.${id} <=
          (select ${id === 'line_no' ? 'tickets_upto' : 'redemptions_upto'} from sale_minutes_pending p
           where p.campaign_id = ${row}.campaign_id), true)`;
/** Statements of their own for each scope: with a condition for both, each run would be planned again. */
const inScope = (statements: (scope: Scope) => string) => `
      if exists (select 1 from sale_minutes_pending) then ${statements(COUNTED)}
      else ${statements(ALL)}
      end if;`;
const WAITS_GROUPED = 'select campaign_id, minute, wait_class, sum(users) as users from';

const ofRows = (rows: string, sign: string) => (counted: Scope) =>
  `
      ${addMinutes(OF_REDEMPTIONS, minutesOf(rows, counted('r', 'redemption_id'), sign))};
      if exists (select 1 from ${rows} where line_no is not null) then
        ${addWaits(`${WAITS_GROUPED} (${waitsOf(rows, sign, counted('r', 'redemption_id'))}) w group by 1, 2, 3`)};
      end if;`;

/**
 * A change adds what the new rows count, and takes away what the old ones counted. Of a user from the line, it changes
 * the wait only if the reservation is voided.
 */
const ofChanges = (counted: Scope) => `
      ${addMinutes(
        OF_REDEMPTIONS,
        `select campaign_id, minute, ${OF_REDEMPTIONS.map((name) => `sum(${name}) as ${name}`).join(', ')} from (
        ${minutesOf('new_rows', counted('r', 'redemption_id'))}
        union all ${minutesOf('old_rows', counted('r', 'redemption_id'), '-')}) changed group by 1, 2`,
      )};
      if exists (select 1 from new_rows where line_no is not null and status = 'voided') then
        ${addWaits(`${WAITS_GROUPED} (${waitsOf('new_rows', '', counted('r', 'redemption_id'))}
        union all ${waitsOf('old_rows', '-', counted('r', 'redemption_id'))}) w group by 1, 2, 3`)};
      end if;`;

const ofTickets = (rows: string, sign: string) => (counted: Scope) =>
  `
      ${addMinutes(
        ['joined'],
        `select t.campaign_id, date_trunc('minute', t.joined_at) as minute, ${sign}count(*) as joined
        from ${rows} t where ${counted('t', 'line_no')} group by 1, 2`,
      )};`;

const TRIGGER_FUNCTIONS = `
  create function redemptions_count_minutes() returns trigger language plpgsql as $$
  begin
    if tg_op = 'INSERT' then ${inScope(ofRows('new_rows', ''))}
    elsif tg_op = 'DELETE' then ${inScope(ofRows('old_rows', '-'))}
    else ${inScope(ofChanges)}
    end if;
    return null;
  end $$;

  create function waiting_tickets_count_minutes() returns trigger language plpgsql as $$
  begin
    if tg_op = 'INSERT' then ${inScope(ofTickets('new_rows', ''))}
    else ${inScope(ofTickets('old_rows', '-'))}
    end if;
    return null;
  end $$;
`;

/** The functions of the worker and of reads. Their names of tables are looked up when they run. */
const FILL = `
  create function sale_minutes_of_rows(campaign uuid, since timestamptz, until timestamptz)
  returns table (minute timestamptz, ${COUNTS.map((name) => `${name} bigint`).join(', ')}, median_wait double precision)
  language sql stable as $$
    with happened as (
      select m.minute, m.reserved, 0 as joined, ${OF_REDEMPTIONS.slice(1)
        .map((name) => `m.${name}`)
        .join(', ')}
      from (${minutesOf('redemptions', 'r.campaign_id = campaign')}) m
      union all
      select date_trunc('minute', t.joined_at), 0, 1, ${OF_REDEMPTIONS.slice(1)
        .map(() => '0')
        .join(', ')} from waiting_tickets t where t.campaign_id = campaign
    ), counted as (
      select h.minute, ${COUNTS.map((name) => `sum(h.${name}) as ${name}`).join(', ')} from happened h
      where h.minute >= since and h.minute < until group by 1
    ), waits as (
      select w.minute, wait_seconds(percentile_disc(0.5) within group (order by w.wait_class)) as median
      from (${waitsOf('redemptions', '', 'r.campaign_id = campaign')}) w group by 1
    )
    select c.*, w.median from counted c left join waits w using (minute) $$;
  comment on function sale_minutes_of_rows is 'computes the minutes of a campaign from all of its rows';

  create function fill_sale_minutes(most integer) returns boolean language plpgsql as $$
  declare
    p sale_minutes_pending; last_redemption uuid; last_ticket bigint; redemptions_read bigint; tickets_read bigint;
  begin
    select * into p from sale_minutes_pending order by campaign_id limit 1;
    if not found then
      return false;
    end if;
    select count(*), (array_agg(r.redemption_id order by r.redemption_id desc))[1] into redemptions_read, last_redemption from (
      select redemption_id from redemptions where campaign_id = p.campaign_id and redemption_id > p.redemptions_upto
      order by redemption_id limit most) r;
    select count(*), max(t.line_no) into tickets_read, last_ticket from (
      select line_no from waiting_tickets where campaign_id = p.campaign_id and line_no > p.tickets_upto
      order by line_no limit most) t;
    ${addMinutes(
      OF_REDEMPTIONS,
      minutesOf(
        'redemptions',
        'r.campaign_id = p.campaign_id and r.redemption_id > p.redemptions_upto and r.redemption_id <= last_redemption',
      ),
    )};
    ${addWaits(
      `${WAITS_GROUPED} (${waitsOf(
        'redemptions',
        '',
        'r.campaign_id = p.campaign_id and r.redemption_id > p.redemptions_upto and r.redemption_id <= last_redemption',
      )}) w group by 1, 2, 3`,
    )};
    ${addMinutes(
      ['joined'],
      `select t.campaign_id, date_trunc('minute', t.joined_at) as minute, count(*) as joined from waiting_tickets t
      where t.campaign_id = p.campaign_id and t.line_no > p.tickets_upto and t.line_no <= last_ticket group by 1, 2`,
    )};
    if redemptions_read < most and tickets_read < most then
      delete from sale_minutes_pending where campaign_id = p.campaign_id;
    else
      update sale_minutes_pending set redemptions_upto = coalesce(last_redemption, redemptions_upto),
        tickets_upto = coalesce(last_ticket, tickets_upto) where campaign_id = p.campaign_id;
    end if;
    return true;
  end $$;
  comment on function fill_sale_minutes is
    'counts the next rows of a pending campaign; the caller keeps writers out. false = no campaign is pending';

  create function recount_sale_minutes(campaigns uuid[]) returns void language sql as $$
    delete from sale_minutes where campaign_id = any(campaigns);
    delete from sale_minute_waits where campaign_id = any(campaigns);
    insert into sale_minutes_pending (campaign_id) select unnest(campaigns)
    on conflict (campaign_id) do update set redemptions_upto = excluded.redemptions_upto, tickets_upto = excluded.tickets_upto;
  $$;
  comment on function recount_sale_minutes is 'has the worker count all rows of campaigns again; the caller keeps writers out';
`;

/**
 * The history of a sale: a row for each of its minutes, which triggers on `redemptions` and `waiting_tickets` keep in
 * the transaction that changes those rows. So each change counts once, whichever program makes it and however often it
 * is repeated. What a row counts follows from the row alone (`redemption_minutes`), so an update adds what the new row
 * counts and takes away what the old one counted.
 *
 * Campaigns whose rows a repair has changed are listed in `sale_minutes_pending`. The worker counts their rows step by
 * step (`fill_sale_minutes`). Until then the triggers count the rows up to those steps, and reads count the rows
 * themselves (`sale_minutes_of_rows`).
 */
export const MINUTES = `
  ${TABLES}
  ${DEFINITIONS}
  ${TRIGGER_FUNCTIONS}
  ${FILL}
  create trigger waiting_tickets_minutes_insert after insert on waiting_tickets
    referencing new table as new_rows for each statement execute function waiting_tickets_count_minutes();
  create trigger waiting_tickets_minutes_delete after delete on waiting_tickets
    referencing old table as old_rows for each statement execute function waiting_tickets_count_minutes();
  select redemptions_add_triggers('redemptions'), redemptions_add_triggers('redemptions_shared');
`;
