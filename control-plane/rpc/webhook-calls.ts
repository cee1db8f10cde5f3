import { ApiError } from '@semblance/common/errors';
import type { CallContext } from '@semblance/common/grpc/server';
import {
  type CreateWebhookEndpointRequest,
  type CreateWebhookEndpointResponse,
  type DeleteWebhookEndpointRequest,
  type DeleteWebhookEndpointResponse,
  type GetWebhookEndpointRequest,
  type GetWebhookEndpointResponse,
  type ListWebhookDeliveriesRequest,
  type ListWebhookDeliveriesResponse,
  type ListWebhookEndpointsRequest,
  type ListWebhookEndpointsResponse,
  type ReplayWebhookDeliveryRequest,
  type ReplayWebhookDeliveryResponse,
  type RotateWebhookSecretRequest,
  type RotateWebhookSecretResponse,
  type ShowWebhookSecretRequest,
  type ShowWebhookSecretResponse,
  RotateWebhookSecretRequest_Step as Step,
  type TestWebhookEndpointRequest,
  type TestWebhookEndpointResponse,
  type UpdateWebhookEndpointRequest,
  type UpdateWebhookEndpointResponse,
} from '@semblance/proto/semblance/control/v1/control';
import type { WebhookEndpoint, WebhookEndpointFields } from '@semblance/proto/semblance/control/v1/webhooks';
import type { Gate } from '../accounts/gate.ts';
import { writeAudit } from '../audit/audit.ts';
import type { Database } from '../storage/database.ts';
import type { Transaction } from '../storage/sql.ts';
import type { Endpoint, EndpointFields, Endpoints, Note } from '../webhooks/endpoints.ts';
import { findOwnDelivery, listOwnDeliveries, replayOwnDelivery } from '../webhooks/own-deliveries.ts';
import { promoteSecret, replaceSecretNow, rotateSecret, showSecret } from '../webhooks/secrets.ts';

export interface WebhookCallsOptions {
  readonly database: Database;
  readonly gate: Gate;
  readonly endpoints: Endpoints;
}

/** Creates the calls by which owners of accounts manage their webhooks. */
export function createWebhookCalls({ database, gate, endpoints }: WebhookCallsOptions) {
  const { sql, fast } = database;
  const account = async (caller: Parameters<Gate['admit']>[0], { trailers }: CallContext) =>
    (await gate.admit(caller, trailers)).accountId;

  /** Admits a caller who changes something, with the function that records it. */
  async function changer(
    action: string,
    caller: Parameters<Gate['admit']>[0],
    { trailers, requestId }: CallContext,
  ): Promise<{ readonly accountId: string; readonly note: Note }> {
    const { accountId, keyId } = await gate.admit(caller, trailers);
    const actor = { name: keyId, role: 'account', tokenId: undefined } as const;
    return {
      accountId,
      note: (tx, facts) =>
        writeAudit(tx, { action, actor, stated: keyId, requestId }, { accountId, ...facts }),
    };
  }

  return {
    async listWebhookEndpoints(
      { caller }: ListWebhookEndpointsRequest,
      context: CallContext,
    ): Promise<ListWebhookEndpointsResponse> {
      return { endpoints: (await endpoints.list(await account(caller, context))).map(told) };
    },

    async getWebhookEndpoint(
      { caller, endpointId }: GetWebhookEndpointRequest,
      context: CallContext,
    ): Promise<GetWebhookEndpointResponse> {
      return { endpoint: told(await endpoints.find(await account(caller, context), endpointId)) };
    },

    async createWebhookEndpoint(
      { caller, fields }: CreateWebhookEndpointRequest,
      context: CallContext,
    ): Promise<CreateWebhookEndpointResponse> {
      const { accountId, note } = await changer('CreateWebhookEndpoint', caller, context);
      const { url = '', events = [], ...rest } = fieldsOf(fields);
      return { endpoint: told(await endpoints.create(accountId, { url, events, ...rest }, note)) };
    },

    async updateWebhookEndpoint(
      { caller, endpointId, fields }: UpdateWebhookEndpointRequest,
      context: CallContext,
    ): Promise<UpdateWebhookEndpointResponse> {
      const { accountId, note } = await changer('UpdateWebhookEndpoint', caller, context);
      return { endpoint: told(await endpoints.change(accountId, endpointId, fieldsOf(fields), note)) };
    },

    async deleteWebhookEndpoint(
      { caller, endpointId }: DeleteWebhookEndpointRequest,
      context: CallContext,
    ): Promise<DeleteWebhookEndpointResponse> {
      const { accountId, note } = await changer('DeleteWebhookEndpoint', caller, context);
      await endpoints.remove(accountId, endpointId, note);
      return {};
    },

    async testWebhookEndpoint(
      { caller, endpointId }: TestWebhookEndpointRequest,
      context: CallContext,
    ): Promise<TestWebhookEndpointResponse> {
      const accountId = await account(caller, context);
      const { id } = await endpoints.test(accountId, endpointId);
      return { delivery: await findOwnDelivery(sql, accountId, id) };
    },

    async listWebhookDeliveries(
      { caller, ...asked }: ListWebhookDeliveriesRequest,
      context: CallContext,
    ): Promise<ListWebhookDeliveriesResponse> {
      return listOwnDeliveries(fast, await account(caller, context), asked);
    },

    async replayWebhookDelivery(
      { caller, deliveryId }: ReplayWebhookDeliveryRequest,
      context: CallContext,
    ): Promise<ReplayWebhookDeliveryResponse> {
      const { accountId, note } = await changer('ReplayWebhookDelivery', caller, context);
      const delivery = await sql.begin(async (tx) => {
        const replayed = await replayOwnDelivery(tx, accountId, deliveryId);
        await note(tx, { subject: deliveryId });
        return replayed;
      });
      return { delivery };
    },

    async showWebhookSecret(
      { caller }: ShowWebhookSecretRequest,
      context: CallContext,
    ): Promise<ShowWebhookSecretResponse> {
      const { accountId, note } = await changer('ShowWebhookSecret', caller, context);
      const secret = await sql.begin(async (tx) => {
        await note(tx, { subject: accountId });
        return showSecret(tx, accountId);
      });
      return { secret };
    },

    async rotateWebhookSecret(
      { caller, step }: RotateWebhookSecretRequest,
      context: CallContext,
    ): Promise<RotateWebhookSecretResponse> {
      const rotate = ROTATIONS[step];
      if (!rotate) throw new ApiError('invalid_input', '`step` must be begin, finish or now.');
      const { accountId, note } = await changer('RotateWebhookSecret', caller, context);
      const secret = await sql.begin(async (tx) => {
        await rotate.act(tx, accountId);
        await note(tx, { subject: accountId, after: { step: rotate.step } });
        return showSecret(tx, accountId);
      });
      return { secret };
    },
  };
}

export type WebhookCalls = ReturnType<typeof createWebhookCalls>;

interface Rotation {
  /** As the path of the API names it. */
  readonly step: string;
  readonly act: (tx: Transaction, accountId: string) => Promise<string>;
}

const ROTATIONS: Readonly<Record<number, Rotation>> = {
  [Step.STEP_BEGIN]: { step: 'begin', act: rotateSecret },
  [Step.STEP_FINISH]: { step: 'finish', act: promoteSecret },
  [Step.STEP_NOW]: { step: 'now', act: replaceSecretNow },
};

function fieldsOf(fields: WebhookEndpointFields | undefined): EndpointFields {
  return { ...fields, events: fields?.events?.names };
}

function told({ failingSince, createdAt, updatedAt, events, ...endpoint }: Endpoint): WebhookEndpoint {
  return {
    ...endpoint,
    events: [...events],
    failingSince: failingSince?.toISOString(),
    createdAt: createdAt.toISOString(),
    updatedAt: updatedAt.toISOString(),
  };
}
