"""The web page and the HTTP API: what a library can do, for a browser and for other programs.

    smlstm serve ~/Photos                            the page, on this machine only
    create_app(Library("my-library"), Settings())    the same as an ASGI application

The page is plain files in `page/`; the API lies below `/api/v1` and describes itself in `/api/v1/openapi.json`.
"""
