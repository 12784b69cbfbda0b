import type { Knex } from 'knex';

/**
 * The prices that a campaign has had on its sale page, for the revenue of each minute of a sale. A trigger keeps them,
 * whichever program changes the campaign. The first price of a campaign counts from the beginning, also of a campaign
 * that a repair writes again.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table campaign_prices (
      campaign_id uuid not null references campaigns on delete cascade,
      since timestamptz not null,
      amount numeric,
      currency text,
      primary key (campaign_id, since),
      check ((amount is null) = (currency is null))
    );
    comment on table campaign_prices is 'what a unit cost on the sale page (branding.price); kept by triggers on campaigns';
    comment on column campaign_prices.amount is 'in minor units of the currency; null = from then on without a price';

    create function campaigns_keep_prices() returns trigger language plpgsql as $$
    declare price jsonb := new.rules #> '{branding,price}';
    begin
      insert into campaign_prices (campaign_id, since, amount, currency)
      values (new.campaign_id, case when tg_op = 'INSERT' then '-infinity' else now() end,
        (price ->> 'amount')::numeric, price ->> 'currency')
      on conflict (campaign_id, since) do update set amount = excluded.amount, currency = excluded.currency;
      return null;
    end $$;
    create trigger campaigns_prices_insert after insert on campaigns
      for each row when (new.rules #> '{branding,price}' is not null) execute function campaigns_keep_prices();
    create trigger campaigns_prices_update after update of rules on campaigns
      for each row when (new.rules #> '{branding,price}' is distinct from old.rules #> '{branding,price}')
      execute function campaigns_keep_prices();

    insert into campaign_prices (campaign_id, since, amount, currency)
    select campaign_id, '-infinity', (rules #>> '{branding,price,amount}')::numeric, rules #>> '{branding,price,currency}'
    from campaigns where rules #> '{branding,price}' is not null;
  `);
}

export async function down(): Promise<void> {
  throw new Error('migrations go forward only');
}
