"""The official Python client that knows nothing but a public address: it finds out how to get in, asks for the person's
consent, works, renews its access, and asks again when the person has ended it."""

import asyncio
import json
import logging
import os
import re
import sys
from urllib.parse import parse_qsl, urljoin, urlsplit

from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

URL = os.environ["CORTEX_MCP_URL"]
# What it is refused here is meant.
logging.disable()


def tell(said: dict) -> None:
    """Says something, and waits until that is done."""
    print(json.dumps(said), flush=True)
    sys.stdin.readline()


class Person:
    """Who sits at the browser, and what they will say."""

    wish = "deny"
    asked_for: dict
    told: dict

    async def browse(self, start: str) -> None:
        self.asked_for = dict(parse_qsl(urlsplit(start).query))
        async with create_mcp_http_client() as browser:
            page = urljoin(start, (await browser.get(start)).headers["location"])
            shown = (await browser.get(page)).text
            tell({self.wish: re.search(r'<p class="code">([^<]+)<', shown)[1]})
            decided = (await browser.get(page)).headers["location"]
        self.told = dict(parse_qsl(urlsplit(decided).query))

    async def answer(self) -> AuthorizationCodeResult:
        told = self.told
        return AuthorizationCodeResult(code=told.get("code", ""), state=told["state"], iss=told["iss"])


class Kept:
    """What a client keeps between its starts."""

    tokens = None
    client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


def leaves(error: BaseException) -> list:
    """The errors of a group, as text."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in leaves(one)]
    return [str(error)]


async def refused(work) -> list:
    try:
        await work
        return []
    except BaseException as error:
        return leaves(error)


async def talk() -> dict:
    person, kept = Person(), Kept()
    metadata = OAuthClientMetadata(
        client_name="Some client",
        redirect_uris=["http://127.0.0.1:4000/callback"],
        token_endpoint_auth_method="none",
    )

    def provider() -> OAuthClientProvider:
        return OAuthClientProvider(URL, metadata, kept, person.browse, person.answer)

    async def use(auth: OAuthClientProvider) -> dict:
        async with create_mcp_http_client(auth=auth) as http:
            async with Client(streamable_http_client(URL, http_client=http)) as client:
                tools = [tool.name for tool in (await client.list_tools()).tools]
                answer = await client.call_tool("list_projects", {})
                return {"tools": tools, "projects": len(answer.structured_content["projects"])}

    denied = await refused(use(provider()))
    told = person.told["error"]

    person.wish = "allow"
    auth = provider()
    used = await use(auth)
    first = kept.tokens

    # Its access is over: it renews it by itself.
    auth.context.token_expiry_time = 1
    again = await use(auth)
    renewed = kept.tokens

    # The person ends it: it is back where it began.
    tell({"revoke": True})
    person.wish = "deny"
    ended = await refused(use(auth))
    return {
        "denied": [told, denied],
        "audience": person.asked_for["resource"],
        "scope": person.asked_for["scope"],
        "used": used,
        "again": again == used,
        "renewed": [first.access_token != renewed.access_token, first.refresh_token != renewed.refresh_token],
        "ended": [person.told["error"], ended],
    }


tell(asyncio.run(talk()))
