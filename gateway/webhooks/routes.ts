import type { Route } from '../openapi/operation.ts';
import {
  listDeliveries,
  listDeliveriesOperation,
  readDelivery,
  readDeliveryOperation,
  replayDelivery,
  replayDeliveryOperation,
} from './deliveries.ts';
import {
  changeEndpoint,
  changeEndpointOperation,
  createEndpoint,
  createEndpointOperation,
  deleteEndpoint,
  deleteEndpointOperation,
  type EndpointOptions,
  listEndpoints,
  listEndpointsOperation,
  readEndpoint,
  readEndpointOperation,
  testEndpoint,
  testEndpointOperation,
} from './endpoints.ts';
import { readSecret, readSecretOperation, rotateSecret, rotateSecretOperation } from './secret.ts';

/** Returns the routes by which owners of accounts manage their webhooks. */
export function webhookRoutes(options: EndpointOptions): Route[] {
  const scope = 'account';
  const endpoints = '/webhook-endpoints';
  const endpoint = `${endpoints}/{endpoint_id}`;
  const deliveries = '/webhook-deliveries';
  const delivery = `${deliveries}/{delivery_id}`;
  return [
    {
      method: 'get',
      path: endpoints,
      handler: listEndpoints(options),
      scope,
      operation: listEndpointsOperation,
    },
    {
      method: 'post',
      path: endpoints,
      handler: createEndpoint(options),
      scope,
      operation: createEndpointOperation,
    },
    {
      method: 'get',
      path: endpoint,
      handler: readEndpoint(options),
      scope,
      operation: readEndpointOperation,
    },
    {
      method: 'patch',
      path: endpoint,
      handler: changeEndpoint(options),
      scope,
      operation: changeEndpointOperation,
    },
    {
      method: 'delete',
      path: endpoint,
      handler: deleteEndpoint(options),
      scope,
      operation: deleteEndpointOperation,
    },
    {
      method: 'post',
      path: `${endpoint}/test`,
      handler: testEndpoint(options),
      scope,
      operation: testEndpointOperation,
    },
    {
      method: 'get',
      path: deliveries,
      handler: listDeliveries(options),
      scope,
      operation: listDeliveriesOperation,
    },
    {
      method: 'get',
      path: delivery,
      handler: readDelivery(options),
      scope,
      operation: readDeliveryOperation,
    },
    {
      method: 'post',
      path: `${delivery}/replay`,
      handler: replayDelivery(options),
      scope,
      operation: replayDeliveryOperation,
    },
    {
      method: 'get',
      path: '/webhook-secret',
      handler: readSecret(options),
      scope,
      operation: readSecretOperation,
    },
    {
      method: 'post',
      path: '/webhook-secret/{step}',
      handler: rotateSecret(options),
      scope,
      operation: rotateSecretOperation,
    },
  ];
}
